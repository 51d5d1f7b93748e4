// For dl_iterate_phdr.
#define _GNU_SOURCE

#include "CAllocationCounter.h"

#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// glibc's own entry points, under the names that stay valid when the public ones are replaced.
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

// Off, it costs next to nothing: what is timed or counted otherwise is not to be distorted.
static atomic_bool is_counting;
static atomic_ulong total;
static atomic_ulong foreign;

// Where the code of the libraries lies whose allocations are not ours. Written once, before main.
static const char *const libraries[] = {"/libnghttp2", "/libssl", "/libcrypto", "/libpq"};
static struct { uintptr_t start, end; } ranges[16];
static int range_count;

static int note_library(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    (void)data;
    int is_foreign = 0;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        if (info->dlpi_name != NULL && strstr(info->dlpi_name, libraries[i]) != NULL) is_foreign = 1;
    }
    for (int i = 0; is_foreign && i < info->dlpi_phnum && range_count < 16; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_LOAD || (header->p_flags & PF_X) == 0) continue;
        ranges[range_count].start = info->dlpi_addr + header->p_vaddr;
        ranges[range_count].end = ranges[range_count].start + header->p_memsz;
        range_count++;
    }
    return 0;
}

__attribute__((constructor)) static void note_libraries(void) { dl_iterate_phdr(note_library, NULL); }

// The caller is found by its return address: these libraries call malloc by themselves, not through ours.
static inline void count(const void *caller) {
    if (!atomic_load_explicit(&is_counting, memory_order_relaxed)) return;
    atomic_fetch_add_explicit(&total, 1, memory_order_relaxed);
    for (int i = 0; i < range_count; i++) {
        if ((uintptr_t)caller >= ranges[i].start && (uintptr_t)caller < ranges[i].end) {
            atomic_fetch_add_explicit(&foreign, 1, memory_order_relaxed);
            return;
        }
    }
}

void callocationcounter_start(void) { atomic_store_explicit(&is_counting, 1, memory_order_relaxed); }

unsigned long callocationcounter_total(void) { return atomic_load_explicit(&total, memory_order_relaxed); }

unsigned long callocationcounter_own(void) {
    return callocationcounter_total() - atomic_load_explicit(&foreign, memory_order_relaxed);
}

void *malloc(size_t size) {
    count(__builtin_return_address(0));
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size) {
    count(__builtin_return_address(0));
    return __libc_calloc(n, size);
}

void *realloc(void *old, size_t size) {
    count(__builtin_return_address(0));
    return __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    count(__builtin_return_address(0));
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
    count(__builtin_return_address(0));
    void *memory = __libc_memalign(alignment, size);
    if (memory == NULL) return ENOMEM;
    *out = memory;
    return 0;
}
