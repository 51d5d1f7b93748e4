#include <libpq-fe.h>
#include <pthread.h>

// Functions of the C library that Swift's Glibc module leaves out.
int pipe2(int pipefd[2], int flags);
int pthread_setname_np(pthread_t thread, const char *name);
