/* The record, the clock, memory and streams: what the driver and the runtime have in common. */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "stand_in.h"

#define MOST_EVENTS (1 << 20)
typedef struct { double at_s; long thread; char kind; const char *name; size_t bytes; double device_s; } Event;
static Event *events;
static long num_events;
static int is_recording;
static double busy_s;
static Stream default_stream;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
__thread int current_device;

int setting(const char *name, int otherwise) {
  const char *said = getenv(name);
  return said ? atoi(said) : otherwise;
}

double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

Stream *stream_of(void *stream) { return (uintptr_t)stream > 16 ? stream : &default_stream; }

void wait_until(double time_s) {
  while (now() < time_s)
    if (time_s - now() > 1e-4) usleep(50);
}

/* The host's part of asking is really spent, so that what else it does runs beside it, as with a driver. */
void note(char kind, const char *name, size_t bytes, void *stream, double device_s) {
  double asked_s = now();
  pthread_mutex_lock(&lock);
  Stream *asked = stream_of(stream);
  if (asked->is_capturing) {
    asked->work_s += device_s;
    pthread_mutex_unlock(&lock);
    return;
  }
  double begin = asked_s + 2 * LAUNCH_S;
  if (kind != WAIT) asked->free_s = (asked->free_s > begin ? asked->free_s : begin) + device_s;
  if (is_recording) busy_s += device_s;
  if (is_recording && num_events < MOST_EVENTS)
    events[num_events++] = (Event){asked_s, syscall(SYS_gettid), kind, name, bytes, device_s};
  pthread_mutex_unlock(&lock);
  while (kind != WAIT && now() < asked_s + LAUNCH_S);
}

EXPORT void stand_in_record(int on) {
  size_t room = sizeof(Event) * (size_t)MOST_EVENTS;
  if (!events) events = mmap(0, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (on) num_events = 0, busy_s = 0;
  is_recording = on;
}

/* When the device has done all that it was asked, by the clock of `now`; and how long it worked since recording. */
EXPORT double stand_in_done_at(void) { return last_free(); }
EXPORT double stand_in_busy(void) { return busy_s; }

EXPORT long stand_in_write(const char *path) {
  FILE *file = fopen(path, "w");
  if (!file) return -1;
  for (long i = 0; i < num_events; i++)
    fprintf(file, "%.7f\t%ld\t%c\t%zu\t%.3e\t%s\n", events[i].at_s, events[i].thread, events[i].kind, events[i].bytes,
            events[i].device_s, events[i].name);
  fclose(file);
  return num_events;
}

/* ---- handles, and streams among them */
#define MOST_STREAMS 256
static Stream *streams[MOST_STREAMS];
static int num_streams;

int make(void **handle) { return (*handle = calloc(1, 256)) ? 0 : 2; }

int make_stream(void **stream) {
  make(stream);
  pthread_mutex_lock(&lock);
  if (num_streams < MOST_STREAMS) streams[num_streams++] = *stream;
  pthread_mutex_unlock(&lock);
  return 0;
}

double last_free(void) {
  double last = default_stream.free_s;
  for (int i = 0; i < num_streams; i++)
    if (streams[i]->free_s > last) last = streams[i]->free_s;
  return last;
}

int wait_for(void *stream) {
  note(WAIT, "synchronise", 0, stream, 0);
  wait_until(stream_of(stream)->free_s);
  return 0;
}

/* ---- memory: blocks in a list */
typedef struct Block { uintptr_t begin; size_t bytes; int on_host; struct Block *next; } Block;
static Block *blocks;
static size_t used, peak;

EXPORT size_t stand_in_peak(void) { return peak; }
size_t device_bytes(void) { return (size_t)setting("STAND_IN_MB", 24000) << 20; }
size_t free_bytes(void) { return device_bytes() - used - ((size_t)512 << 20); }

int allocate(uintptr_t *pointer, size_t bytes, int on_host) {
  size_t room = (bytes + 4095) & ~(size_t)4095;
  if (!on_host && room > free_bytes()) return 2; /* out of memory */
  Block *block = malloc(sizeof *block);
  void *memory = mmap(0, room ? room : 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (!block || memory == MAP_FAILED) return 2;
  pthread_mutex_lock(&lock);
  *block = (Block){*pointer = (uintptr_t)memory, room ? room : 4096, on_host, blocks};
  blocks = block;
  if (!on_host && (used += room) > peak) peak = used;
  pthread_mutex_unlock(&lock);
  return 0;
}

int give_back(uintptr_t pointer) {
  pthread_mutex_lock(&lock);
  for (Block **place = &blocks; *place; place = &(*place)->next) {
    Block *block = *place;
    if (block->begin != pointer) continue;
    *place = block->next;
    if (!block->on_host) used -= block->bytes;
    munmap((void *)block->begin, block->bytes);
    free(block);
    break;
  }
  pthread_mutex_unlock(&lock);
  return 0;
}

int range_of(uintptr_t pointer, uintptr_t *begin, size_t *bytes) {
  int kind = 0;
  pthread_mutex_lock(&lock);
  for (Block *block = blocks; block && !kind; block = block->next)
    if (pointer >= block->begin && pointer < block->begin + block->bytes) {
      if (begin) *begin = block->begin;
      if (bytes) *bytes = block->bytes;
      kind = block->on_host ? 1 : 2;
    }
  pthread_mutex_unlock(&lock);
  return kind;
}

int kind_of(uintptr_t pointer) { return range_of(pointer, 0, 0); }

/* A copy from or to memory that is not pinned keeps the host until it is done. */
int copy(void *to, const void *from, size_t bytes, char kind, void *stream) {
  const void *on_host = kind == TO_HOST ? to : from;
  int is_pinned = kind == ON_DEVICE || kind_of((uintptr_t)on_host) == 1;
  double rate = kind == ON_DEVICE ? BYTES_PER_S / 2 : is_pinned ? PCIE_BYTES_PER_S : PAGEABLE_BYTES_PER_S;
  note(kind, is_pinned ? "copy" : "copy, not pinned", bytes, stream, KERNEL_S + bytes / rate);
  if (!is_pinned && (kind == TO_HOST || bytes > 65536)) wait_until(stream_of(stream)->free_s);
  memmove(to, from, bytes);
  /* A single byte that the host reads is what a branch goes by. */
  if (kind == TO_HOST && bytes == 1) *(char *)to = (char)setting("STAND_IN_BRANCH", 1);
  return 0;
}

int fill(void *to, unsigned value, size_t width, size_t count, void *stream) {
  note(FILL, "fill", width * count, stream, KERNEL_S + width * count / BYTES_PER_S);
  for (size_t i = 0; i < count; i++) memcpy((char *)to + i * width, &value, width);
  return 0;
}

/* Of threads that read two numbers of 32 bits each and write one. */
double seconds_of(const unsigned *grid) {
  double threads = (double)grid[0] * grid[1] * grid[2] * grid[3] * grid[4] * grid[5];
  return KERNEL_S + 12 * threads / BYTES_PER_S;
}

/* An Eigen kernel is told how many elements it goes over, with any number of threads; others have a thread for each. */
void launch(const char *name, const unsigned *grid, void **arguments, void *stream) {
  double device_s = seconds_of(grid);
  if (arguments && strstr(name, "EigenMetaKernel")) {
    double told = strstr(name, "lEEvT_T0_") ? *(long *)arguments[1] : *(int *)arguments[1];
    double told_s = KERNEL_S + 12 * told / BYTES_PER_S;
    if (told_s > device_s) device_s = told_s;
  }
  note(KERNEL, name, 0, stream, device_s);
}

/* ---- functions that a stream calls on the host when it gets there: in their order, on a thread of the driver's */
typedef struct Call { void (*function)(void *); void *data; double at_s; struct Call *next; } Call;
static Call *first, *last;
static pthread_cond_t is_call = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t calls = PTHREAD_MUTEX_INITIALIZER;

static void *make_calls(void *unused) {
  for (;;) {
    pthread_mutex_lock(&calls);
    while (!first) pthread_cond_wait(&is_call, &calls);
    Call *call = first;
    if (!(first = call->next)) last = 0;
    pthread_mutex_unlock(&calls);
    wait_until(call->at_s);
    call->function(call->data);
    free(call);
  }
  return unused;
}

int call_on_host(void *stream, void (*function)(void *), void *data) {
  static int is_running;
  pthread_t thread;
  Call *call = malloc(sizeof *call);
  *call = (Call){function, data, stream_of(stream)->free_s, 0};
  pthread_mutex_lock(&calls);
  if (!is_running++) pthread_create(&thread, 0, make_calls, 0);
  if (last) last->next = call; else first = call;
  last = call;
  pthread_cond_signal(&is_call);
  pthread_mutex_unlock(&calls);
  return 0;
}
