#include <libpq-fe.h>
#include <pthread.h>
#include <spawn.h>

// Functions of the C library that Swift's Glibc module leaves out.
int pipe2(int pipefd[2], int flags);
int pthread_setname_np(pthread_t thread, const char *name);
int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int from);
