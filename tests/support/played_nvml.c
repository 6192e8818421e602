/* A libnvidia-ml.so.1 that plays the GPUs of PLAYED_GPUS, so that everything above it is the real thing.
 *
 * PLAYED_GPUS="RTX 4090,24576,512,8.9;A100,40960,0,8.0,slices=2": name, memory and what of it is used (MB),
 * capability, and what is special about it: lost, lost_if=FILE (once it exists), forbidden, no_memory, no_share,
 * no_uuid, slices=N, programs=N. PLAYED_INIT is what nvmlInit returns, PLAYED_DRIVER and PLAYED_CUDA the versions.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK, UNINITIALIZED, INVALID, NOT_SUPPORTED, FORBIDDEN, NOT_FOUND = 6, TOO_SMALL, NO_DRIVER = 9, LOST = 15, MISMATCH = 18 };
typedef struct { char name[64], special[256]; int mb, used, major, minor; } Played;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Shares;
typedef struct { unsigned pid; unsigned long long used; unsigned instance, compute; } Program;
static int opened;

static int number(const char *name, int otherwise) {
  const char *said = getenv(name);
  return said ? atoi(said) : otherwise;
}

/* The GPU at this place of PLAYED_GPUS; 0 where there is none. */
static int played(int index, Played *gpu) {
  const char *all = getenv("PLAYED_GPUS");
  for (; all && *all && index--;) all = (all = strchr(all, ';')) ? all + 1 : 0;
  memset(gpu, 0, sizeof *gpu);
  return all && *all && sscanf(all, "%63[^,;],%d,%d,%d.%d,%255[^;]", gpu->name, &gpu->mb, &gpu->used, &gpu->major, &gpu->minor, gpu->special) >= 5;
}

static int count(void) {
  Played gpu;
  int n = 0;
  while (played(n, &gpu)) n++;
  return n;
}

static int is(const Played *gpu, const char *what) {
  const char *found = strstr(gpu->special, what);
  return found && (found[strlen(what)] == 0 || found[strlen(what)] == ' ' || found[strlen(what)] == '=');
}

/* A handle is the place plus one, and in the next byte the number of the slice plus one. */
static int of(void *handle, Played *gpu, int *slice) {
  intptr_t value = (intptr_t)handle;
  char path[256];
  if (!opened) return UNINITIALIZED;
  *slice = (int)(value >> 8) - 1;
  if (!played((int)(value & 255) - 1, gpu)) return INVALID;
  if (is(gpu, "forbidden")) return FORBIDDEN;
  if (is(gpu, "lost")) return LOST;
  const char *when = strstr(gpu->special, "lost_if=");
  return when && sscanf(when, "lost_if=%255[^ ]", path) == 1 && !access(path, F_OK) ? LOST : OK;
}

static int programs_of(const Played *gpu) {
  const char *said = strstr(gpu->special, "programs=");
  return said ? atoi(said + 9) : 0;
}

static int slices_of(const Played *gpu) {
  const char *said = strstr(gpu->special, "slices=");
  return said ? atoi(said + 7) : -1;
}

int nvmlInitWithFlags(unsigned flags) {
  int answer = number("PLAYED_INIT", OK);
  if (!answer) opened++;
  return answer;
}
int nvmlShutdown(void) { return opened ? (opened--, OK) : UNINITIALIZED; }
const char *nvmlErrorString(int code) {
  switch (code) {
    case NOT_SUPPORTED: return "Not Supported";
    case FORBIDDEN: return "Insufficient Permissions";
    case NOT_FOUND: return "Not Found";
    case NO_DRIVER: return "Driver Not Loaded";
    case LOST: return "GPU is lost";
    case MISMATCH: return "Driver/library version mismatch";
    default: return "Unknown Error";
  }
}
int nvmlDeviceGetCount_v2(unsigned *n) { return *n = count(), opened ? OK : UNINITIALIZED; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
  Played gpu;
  int slice;
  *handle = (void *)(intptr_t)(index + 1);
  int answer = of(*handle, &gpu, &slice);
  return answer == LOST && !is(&gpu, "lost") ? OK : answer; /* it is lost while it is looked at */
}
int nvmlDeviceGetUUID(void *handle, char *text, unsigned size) {
  Played gpu;
  int slice, answer = of(handle, &gpu, &slice), index = (int)((intptr_t)handle & 255) - 1;
  if (answer) return answer;
  if (is(&gpu, "no_uuid")) return NOT_SUPPORTED;
  if (slice < 0) snprintf(text, size, "GPU-%08x-1111-2222-3333-444444444444", 0x11111111 * (index + 1));
  else snprintf(text, size, "MIG-%08x-1111-2222-3333-44444444444%d", 0x11111111 * (index + 1), slice);
  return OK;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
  char text[96];
  for (int index = 0; index < count(); index++)
    for (int slice = -1; slice < 7; slice++) {
      *handle = (void *)(intptr_t)((index + 1) | (slice + 1) << 8);
      if (!nvmlDeviceGetUUID(*handle, text, sizeof text) && !strcmp(text, uuid)) return OK;
    }
  for (int index = 0; index < count(); index++) {
    Played gpu;
    int slice;
    if (of((void *)(intptr_t)(index + 1), &gpu, &slice) == LOST) return LOST;
  }
  return NOT_FOUND;
}
int nvmlDeviceGetName(void *handle, char *text, unsigned size) {
  Played gpu;
  int slice, answer = of(handle, &gpu, &slice);
  if (!answer) snprintf(text, size, slice < 0 ? "%s" : "%s MIG 1g", gpu.name);
  return answer;
}
int nvmlDeviceGetMemoryInfo(void *handle, Memory *memory) {
  Played gpu;
  int slice, answer = of(handle, &gpu, &slice);
  if (answer || is(&gpu, "no_memory")) return answer ? answer : NOT_SUPPORTED;
  int parts = slice < 0 ? 1 : slices_of(&gpu);
  memory->total = ((unsigned long long)gpu.mb << 20) / parts;
  memory->used = ((unsigned long long)gpu.used << 20) / parts;
  return memory->free = memory->total - memory->used, OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *room, Program *programs) {
  Played gpu;
  int slice, answer = of(handle, &gpu, &slice);
  unsigned there = programs_of(&gpu);
  if (answer) return answer;
  if (*room < there) return *room = there, TOO_SMALL;
  for (*room = 0; *room < there; ++*room) programs[*room] = (Program){4000 + *room, 300u << 20, ~0u, ~0u};
  return OK;
}
int nvmlDeviceGetUtilizationRates(void *handle, Shares *shares) {
  Played gpu;
  int slice, answer = of(handle, &gpu, &slice);
  if (answer || slice >= 0 || slices_of(&gpu) >= 0 || is(&gpu, "no_share")) return answer ? answer : NOT_SUPPORTED;
  return shares->gpu = 63, shares->memory = 20, OK;
}
int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) {
  Played gpu;
  int slice, answer = of(handle, &gpu, &slice);
  if (answer || slice >= 0) return answer ? answer : NOT_SUPPORTED;
  return *major = gpu.major, *minor = gpu.minor, OK;
}
int nvmlDeviceGetMigMode(void *handle, unsigned *now, unsigned *next) {
  Played gpu;
  int slice, answer = of(handle, &gpu, &slice);
  if (answer || gpu.major < 8) return answer ? answer : NOT_SUPPORTED;
  return *now = *next = slices_of(&gpu) >= 0, OK;
}
int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *n) { return *n = 7, OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned number, void **slice) {
  Played gpu;
  int none, answer = of(handle, &gpu, &none);
  if (answer || (int)number >= slices_of(&gpu)) return answer ? answer : NOT_FOUND;
  return *slice = (void *)((intptr_t)handle | (intptr_t)(number + 1) << 8), OK;
}
int nvmlSystemGetDriverVersion(char *text, unsigned size) {
  const char *said = getenv("PLAYED_DRIVER");
  return snprintf(text, size, "%s", said ? said : "575.57.08"), OK;
}
int nvmlSystemGetCudaDriverVersion_v2(int *version) { return *version = number("PLAYED_CUDA", 12090), OK; }

/* What TensorFlow itself asks, on a machine whose CUDA is a stand-in. */
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **handle) { return *handle = (void *)(intptr_t)1, OK; }
int nvmlDeviceGetCurrPcieLinkGeneration(void *handle, unsigned *n) { return *n = 4, OK; }
int nvmlDeviceGetCurrPcieLinkWidth(void *handle, unsigned *n) { return *n = 16, OK; }
int nvmlDeviceGetMaxPcieLinkGeneration(void *handle, unsigned *n) { return *n = 4, OK; }
int nvmlDeviceGetMaxPcieLinkWidth(void *handle, unsigned *n) { return *n = 16, OK; }
int nvmlDeviceGetNvLinkState(void *handle, unsigned link, unsigned *on) { return *on = 0, NOT_SUPPORTED; }
int nvmlDeviceGetGpuFabricInfoV(void *handle, void *found) { return NOT_SUPPORTED; }
