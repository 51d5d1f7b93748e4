// Counts heap allocations of the process. Linked by PealBenchmarks alone.
#ifndef CALLOCATIONCOUNTER_H
#define CALLOCATIONCOUNTER_H

/// The number of malloc, calloc, realloc and aligned allocations since the process began.
unsigned long callocationcounter_total(void);

/// Those of them that were not made from inside libnghttp2, libssl, libcrypto or libpq: our own code, and the Swift
/// runtime that it calls.
unsigned long callocationcounter_own(void);

#endif
