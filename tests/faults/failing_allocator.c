// Preloaded by tests/faults/faults.py: an allocation of the program fails, as where memory ends.
//
//   TPUSIM_FAIL_AT=N   number N fails, counted from the start of main()
//   TPUSIM_FAIL_FOR=M  and the M - 1 behind it (1)
//   TPUSIM_COUNT=FILE  how many there were, written at the end
//
// Requests of more than 256 bytes count apart under TPUSIM_FAIL_LARGE=N: a system that runs out of
// memory refuses large ones first. Those that HDF5 asks for do not count: 1.10 ends the process
// itself at some (H5I_register), reads what it did not get at others (H5CX_push), so
// traces/hdf5_file.cpp makes sure of the memory before the library runs.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

static atomic_long seen;
static atomic_long seen_large;
static atomic_int counting;
static long fail_at = -1, fail_for = 1, fail_large = -1;

static char *hdf5_begin, *hdf5_end;

static int find_hdf5(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size, (void)data;
  if (strstr(info->dlpi_name, "libhdf5") == NULL || strstr(info->dlpi_name, "_hl") != NULL)
    return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    char* begin = (char*)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    if (hdf5_begin == NULL) hdf5_begin = begin;
    hdf5_end = begin + info->dlpi_phdr[i].p_memsz;
  }
  return 1;
}

static int fails_for(size_t bytes, char* caller) {
  if (!counting || (caller >= hdf5_begin && caller < hdf5_end)) return 0;
  const long number = ++seen;
  if (fail_at > 0 && number >= fail_at && number < fail_at + fail_for) return 1;
  return bytes > 256 && ++seen_large == fail_large;
}

static void* none(void) {
  errno = ENOMEM;
  return NULL;
}

void* malloc(size_t bytes) {
  return fails_for(bytes, __builtin_return_address(0)) ? none() : __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  return fails_for(count * bytes, __builtin_return_address(0)) ? none()
                                                               : __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  return fails_for(bytes, __builtin_return_address(0)) ? none() : __libc_realloc(old, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  return fails_for(bytes, __builtin_return_address(0)) ? none() : __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
char* strdup(const char* text) {
  const size_t bytes = strlen(text) + 1;
  char* copy = fails_for(bytes, __builtin_return_address(0)) ? none() : __libc_malloc(bytes);
  return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}
int posix_memalign(void** result, size_t alignment, size_t bytes) {
  void* memory = memalign(alignment, bytes);
  if (memory == NULL) return ENOMEM;
  *result = memory;
  return 0;
}

static int (*program)(int, char**, char**);

static long number_of(const char* name, long otherwise) {
  const char* text = getenv(name);
  return text != NULL ? atol(text) : otherwise;
}

static int counted(int count, char** words, char** environment) {
  fail_at = number_of("TPUSIM_FAIL_AT", -1);
  fail_for = number_of("TPUSIM_FAIL_FOR", 1);
  fail_large = number_of("TPUSIM_FAIL_LARGE", -1);
  dl_iterate_phdr(find_hdf5, NULL);
  counting = 1;
  const int result = program(count, words, environment);
  counting = 0;
  const char* file = getenv("TPUSIM_COUNT");
  if (file != NULL) {
    FILE* out = fopen(file, "w");
    if (out != NULL) {
      fprintf(out, "%ld %ld\n", (long)seen, (long)seen_large);
      fclose(out);
    }
  }
  return result;
}

// What the C library calls before main(): the allocations of libraries that start are not the
// program's.
int __libc_start_main(int (*main)(int, char**, char**), int count, char** words,
                      void (*start)(void), void (*end)(void), void (*unload)(void), void* stack) {
  int (*next)(int (*)(int, char**, char**), int, char**, void (*)(void), void (*)(void),
              void (*)(void), void*);
  *(void**)&next = dlsym(RTLD_NEXT, "__libc_start_main");
  program = main;
  return next(counted, count, words, start, end, unload, stack);
}
