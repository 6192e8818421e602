/* What the parts of the stand-in share: a record of what was asked, and a clock for a device that is not there.
 *
 * Nothing is computed. Device memory is host memory, copies are copies, kernels do nothing. Each thing that is asked
 * is written down and takes its time on a modelled device: streams know when they are free.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
/* Answers "success" and does nothing. */
#define NOTHING(name) EXPORT int name(void) { return 0; }
/* Makes a handle that nobody looks into. */
#define HANDLE(name) EXPORT int name(void **handle) { return make(handle); }

/* A launch of a kernel, of a library, of a graph; copies to the host, to the device, on it; a filling; a wait. */
enum { KERNEL = 'K', LIBRARY = 'B', GRAPH = 'G', TO_HOST = '<', TO_DEVICE = '>', ON_DEVICE = '=', FILL = 'M', WAIT = 'S' };

/* An RTX 4090, as kernels reach it. */
#define LAUNCH_S 2.2e-6          /* of the host, for whatever it asks for */
#define KERNEL_S 1.8e-6          /* of the device, for the smallest kernel */
#define FLOPS 35e12              /* of products in TF32 */
#define HALF_FLOPS 70e12         /* and of numbers of 16 bits */
#define DOUBLE_FLOPS 1.2e12
#define BYTES_PER_S 900e9
#define PCIE_BYTES_PER_S 24e9    /* from and to pinned memory */
#define PAGEABLE_BYTES_PER_S 8e9

typedef struct { char name[256]; } Function;
/* When a stream is free; what it has taken down since a capture began, in seconds of the device. */
typedef struct { double free_s, work_s; int is_capturing; } Stream;

void note(char kind, const char *name, size_t bytes, void *stream, double device_s);
double now(void);
Stream *stream_of(void *stream);
int make_stream(void **stream);
double seconds_of(const unsigned *grid);
void wait_until(double time_s);
int make(void **handle);         /* zeroed, large enough for everything that keeps something */
int allocate(uintptr_t *pointer, size_t bytes, int on_host);
int give_back(uintptr_t pointer);
int kind_of(uintptr_t pointer);  /* 0 unknown, 1 pinned, 2 of the device */
int copy(void *to, const void *from, size_t bytes, char kind, void *stream);
int fill(void *to, unsigned value, size_t width, size_t count, void *stream);
int wait_for(void *stream);
double last_free(void);          /* when the last stream is */
int range_of(uintptr_t pointer, uintptr_t *begin, size_t *bytes);
size_t device_bytes(void);
size_t free_bytes(void);
int call_on_host(void *stream, void (*function)(void *), void *data);
void launch(const char *name, const unsigned *grid, void **arguments, void *stream);
long attribute_of_device(int attribute);
int setting(const char *name, int otherwise);
extern __thread int current_device;
