// Linux headers that Swift's Glibc module leaves out.
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

// glibc declares it for _GNU_SOURCE only.
extern int pthread_setname_np(pthread_t thread, const char *name);
