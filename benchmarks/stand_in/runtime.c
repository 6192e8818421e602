/* libcudart: what TensorFlow's own kernels are launched by. */
#include "stand_in.h"

enum { FROM_HOST = 1, FROM_DEVICE = 2 };

EXPORT int cudaGetDeviceCount(int *n) { extern int cuDeviceGetCount(int *); return cuDeviceGetCount(n); }
EXPORT int cudaGetDevice(int *device) { return *device = current_device, 0; }
EXPORT int cudaSetDevice(int device) { return current_device = device, 0; }
EXPORT int cudaDriverGetVersion(int *version) { return *version = 12090, 0; }
EXPORT int cudaRuntimeGetVersion(int *version) { return *version = 12050, 0; }
EXPORT int cudaDeviceGetAttribute(int *value, int attribute, int device) { return *value = (int)attribute_of_device(attribute), 0; }
EXPORT int cudaDeviceGetStreamPriorityRange(int *least, int *most) { return *least = 0, *most = -5, 0; }
EXPORT const char *cudaGetErrorString(int code) { return "error of the stand-in"; }
EXPORT const char *cudaGetErrorName(int code) { return "error of the stand-in"; }
/* The properties are attributes in places of their own; of those that are asked for, byte and attribute. */
EXPORT int cudaGetDeviceProperties_v2(char *properties, int device) {
  static const struct { int byte, attribute; } PLACES_OF[] = {
      {304, 12}, {308, 10}, {320, 1}, {324, 2}, {328, 3}, {332, 4}, {336, 5}, {340, 6}, {344, 7}, {348, 13}, {360, 75}, {364, 76},
      {388, 16}, {608, 36}, {612, 37}, {616, 38}, {624, 39}, {640, 81}, {648, 82}, {696, 97}, {712, 106}};
  memset(properties, 0, 1032);
  strcpy(properties, "Stand-in for an RTX 4090");
  *(size_t *)(properties + 288) = device_bytes();
  *(size_t *)(properties + 296) = (size_t)attribute_of_device(8);
  for (size_t i = 0; i < sizeof PLACES_OF / sizeof *PLACES_OF; i++)
    *(int *)(properties + PLACES_OF[i].byte) = (int)attribute_of_device(PLACES_OF[i].attribute);
  return 0;
}
NOTHING(cudaGetLastError)
NOTHING(cudaPeekAtLastError)
NOTHING(cudaFuncSetAttribute)

/* ---- kernels, which programs register under the address of their host side */
typedef struct Kernel { const void *address; const char *name; struct Kernel *next; } Kernel;
#define PLACES 65536
static Kernel *kernels[PLACES];
static Kernel **place_of(const void *address) { return &kernels[((uintptr_t)address >> 4) % PLACES]; }

static const char *name_of(const void *address) {
  for (Kernel *kernel = *place_of(address); kernel; kernel = kernel->next)
    if (kernel->address == address) return kernel->name;
  return "?";
}

EXPORT void **__cudaRegisterFatBinary(void *binary) { static void *handle[1]; return handle; }
NOTHING(__cudaRegisterFatBinaryEnd)
NOTHING(__cudaUnregisterFatBinary)
NOTHING(__cudaRegisterVar)
NOTHING(__cudaRegisterManagedVar)
EXPORT char __cudaInitModule(void **handle) { return 1; }
EXPORT void __cudaRegisterFunction(void **handle, const char *address, char *symbol, const char *name) {
  Kernel *kernel = malloc(sizeof *kernel), **place = place_of(address);
  *kernel = (Kernel){address, name, *place};
  *place = kernel;
}

typedef struct { unsigned x, y, z; } Size;
static __thread struct { Size grid, block; size_t shared; void *stream; } call;
EXPORT unsigned __cudaPushCallConfiguration(Size grid, Size block, size_t shared, void *stream) {
  call.grid = grid, call.block = block, call.shared = shared, call.stream = stream;
  return 0;
}
EXPORT int __cudaPopCallConfiguration(Size *grid, Size *block, size_t *shared, void **stream) {
  return *grid = call.grid, *block = call.block, *shared = call.shared, *stream = call.stream, 0;
}
EXPORT int cudaLaunchKernel(const void *address, Size grid, Size block, void **arguments, size_t shared, void *stream) {
  return launch(name_of(address), (unsigned[]){grid.x, grid.y, grid.z, block.x, block.y, block.z}, arguments, stream), 0;
}
EXPORT int cudaLaunchKernelExC(const unsigned *configuration, const void *address, void **arguments) {
  return launch(name_of(address), configuration, arguments, *(void **)(configuration + 8)), 0;
}
EXPORT int cudaFuncGetAttributes(int *attributes, const void *address) {
  memset(attributes, 0, 144);
  attributes[6] = 1024, attributes[7] = 32, attributes[8] = attributes[9] = 80; /* behind three sizes: threads, registers, versions */
  return 0;
}
EXPORT int cudaGetFuncBySymbol(Function **function, const void *address) {
  make((void **)function);
  return snprintf((*function)->name, sizeof(Function), "%s", name_of(address)), 0;
}
EXPORT int cudaGetSymbolAddress(uintptr_t *pointer, const void *symbol) {
  static uintptr_t constants;
  if (!constants) allocate(&constants, 1 << 20, 0);
  return *pointer = constants, 0;
}
EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *address, int size, size_t shared) { return *n = 4, 0; }
EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, void *address, int size, size_t shared, unsigned flags) { return *n = 4, 0; }

/* ---- memory and streams */
EXPORT int cudaMalloc(uintptr_t *pointer, size_t bytes) { return allocate(pointer, bytes, 0); }
EXPORT int cudaFree(uintptr_t pointer) { return give_back(pointer); }
EXPORT int cudaMemcpyAsync(void *to, const void *from, size_t n, int kind, void *stream) {
  return copy(to, from, n, kind == FROM_HOST ? TO_DEVICE : kind == FROM_DEVICE ? TO_HOST : ON_DEVICE, stream);
}
EXPORT int cudaMemcpy(void *to, const void *from, size_t n, int kind) { return cudaMemcpyAsync(to, from, n, kind, 0), wait_for(0); }
EXPORT int cudaMemsetAsync(void *to, int value, size_t n, void *stream) { return fill(to, value, 1, n, stream); }
EXPORT int cudaMemset(void *to, int value, size_t n) { return fill(to, value, 1, n, 0); }
EXPORT int cudaStreamSynchronize(void *stream) { return wait_for(stream); }
EXPORT int cudaDeviceSynchronize(void) { return wait_for(0); }
typedef struct { void (*function)(void *, int, void *); void *stream, *data; } CallBack;
static void call_back(void *of) {
  CallBack call = *(CallBack *)of;
  free(of);
  call.function(call.stream, 0, call.data);
}
EXPORT int cudaStreamAddCallback(void *stream, void (*function)(void *, int, void *), void *data, unsigned flags) {
  CallBack *call = malloc(sizeof *call);
  *call = (CallBack){function, stream, data};
  return call_on_host(stream, call_back, call);
}
EXPORT int cudaStreamIsCapturing(void *stream, int *status) { return *status = stream_of(stream)->is_capturing, 0; }
EXPORT int cudaEventCreateWithFlags(void **event, unsigned flags) { return make(event); }
EXPORT int cudaEventRecord(double *event, void *stream) { return *event = stream_of(stream)->free_s, 0; }
NOTHING(cudaEventDestroy)
