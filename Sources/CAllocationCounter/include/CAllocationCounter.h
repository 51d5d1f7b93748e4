// Counts heap allocations of the process. Linked by PealBenchmarks alone.
#ifndef CALLOCATIONCOUNTER_H
#define CALLOCATIONCOUNTER_H

/// The number of malloc, calloc, realloc and aligned allocations since the process began.
unsigned long callocationcounter_total(void);

#endif
