// Counts heap allocations of the process. Linked by PealBenchmarks alone.
#ifndef CALLOCATIONCOUNTER_H
#define CALLOCATIONCOUNTER_H

/// Begins to count; before that nothing is counted.
void callocationcounter_start(void);

/// The number of malloc, calloc, realloc and aligned allocations since the start.
unsigned long callocationcounter_total(void);

/// Those of them that were not made from inside libnghttp2, libssl, libcrypto or libpq: our own code, and the Swift
/// runtime that it calls.
unsigned long callocationcounter_own(void);

#endif
