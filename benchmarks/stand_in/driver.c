/* libcuda: devices, contexts, streams, events, memory, modules, launches and graphs. */

#include "stand_in.h"

#include <dlfcn.h>

enum { INVALID = 1, NOT_SUPPORTED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, NOT_FOUND = 500, NOT_READY = 600 };

/* ---- devices */
static int num_devices(void) {
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  int all = setting("STAND_IN_GPUS", 1), named = visible && *visible;
  if (!visible) return all;
  for (; *visible; visible++) named += *visible == ',';
  return named < all ? named : all;
}

/* By their numbers in cuda.h: what a program asks of a device before it uses it. */
static const struct { int attribute; long value; } RTX_4090[] = {
    {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, 49152}, {9, 65536}, {10, 32},
    {11, 2147483647}, {12, 65536}, {13, 2520000}, {14, 512}, {15, 1}, {16, 128}, {19, 1}, {31, 1}, {33, 1},
    {36, 10501000}, {37, 384}, {38, 75497472}, {39, 1536}, {40, 2}, {41, 1}, {78, 1}, {79, 1}, {80, 1}, {81, 102400},
    {82, 65536}, {83, 1}, {89, 1}, {90, 1}, {95, 1}, {96, 1}, {97, 101376}, {98, 1}, {99, 1}, {106, 24}, {111, 1024}, {115, 1}};

long attribute_of_device(int attribute) {
  int capability = setting("STAND_IN_CAPABILITY", 89);
  if (attribute == 75) return capability / 10;
  if (attribute == 76) return capability % 10;
  for (size_t i = 0; i < sizeof RTX_4090 / sizeof *RTX_4090; i++)
    if (RTX_4090[i].attribute == attribute) return RTX_4090[i].value;
  return 0;
}

EXPORT int cuInit(unsigned flags) { return num_devices() ? 0 : NO_DEVICE; }
EXPORT int cuDriverGetVersion(int *version) { return *version = 12090, 0; }
EXPORT int cuDeviceGetCount(int *n) { return *n = num_devices(), 0; }
EXPORT int cuDeviceGet(int *device, int index) { return *device = index, index < num_devices() ? 0 : INVALID_DEVICE; }
EXPORT int cuDeviceGetName(char *text, int size, int device) { return snprintf(text, size, "Stand-in for an RTX 4090"), 0; }
EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device) { return *bytes = device_bytes(), 0; }
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) { return *value = (int)attribute_of_device(attribute), 0; }
EXPORT int cuDeviceGetPCIBusId(char *text, int size, int device) { return snprintf(text, size, "0000:%02x:00.0", device + 1), 0; }
EXPORT int cuDeviceCanAccessPeer(int *can, int one, int other) { return *can = 0; }
EXPORT int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
  memset(uuid, 0x11, 16);
  return uuid[15] = (unsigned char)device, 0;
}

/* ---- contexts: one of each device */
static char contexts[64];
EXPORT int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = &contexts[device], 0; }
EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *is_active) { return *flags = 0, *is_active = 1, 0; }
EXPORT int cuCtxGetCurrent(void **context) { return *context = &contexts[current_device], 0; }
EXPORT int cuCtxSetCurrent(void *context) { return current_device = context ? (int)((char *)context - contexts) : 0, 0; }
EXPORT int cuCtxPushCurrent_v2(void *context) { return cuCtxSetCurrent(context); }
EXPORT int cuCtxPopCurrent_v2(void **context) { return context ? cuCtxGetCurrent(context) : 0; }
EXPORT int cuCtxGetDevice(int *device) { return *device = current_device, 0; }
EXPORT int cuCtxGetStreamPriorityRange(int *least, int *most) { return *least = 0, *most = -5, 0; }
EXPORT int cuCtxGetApiVersion(void *context, unsigned *version) { return *version = 3020, 0; }
EXPORT int cuCtxSynchronize(void) {
  note(WAIT, "synchronise the context", 0, 0, 0);
  return wait_until(last_free()), 0;
}

/* ---- streams and events: an event keeps when its stream will have got there */
EXPORT int cuStreamCreate(void **stream, unsigned flags) { return make_stream(stream); }
EXPORT int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) { return make_stream(stream); }
EXPORT int cuStreamGetPriority(void *stream, int *priority) { return *priority = 0; }
EXPORT int cuStreamGetCtx(void *stream, void **context) { return cuCtxGetCurrent(context); }
EXPORT int cuStreamSynchronize(void *stream) { return wait_for(stream); }
EXPORT int cuStreamQuery(void *stream) { return now() < stream_of(stream)->free_s ? NOT_READY : 0; }
HANDLE(cuEventCreate)
EXPORT int cuEventDestroy_v2(void *event) { return free(event), 0; }
EXPORT int cuEventRecord(double *event, void *stream) { return *event = stream_of(stream)->free_s, 0; }
EXPORT int cuEventQuery(double *event) { return now() < *event ? NOT_READY : 0; }
EXPORT int cuEventElapsedTime(float *ms, double *begin, double *end) { return *ms = (float)((*end - *begin) * 1e3 + 1e-3), 0; }
EXPORT int cuEventElapsedTime_v2(float *ms, double *begin, double *end) { return cuEventElapsedTime(ms, begin, end); }
EXPORT int cuEventSynchronize(double *event) {
  note(WAIT, "synchronise an event", 0, 0, 0);
  return wait_until(*event), 0;
}
EXPORT int cuStreamWaitEvent(void *stream, double *event, unsigned flags) {
  if (stream_of(stream)->free_s < *event) stream_of(stream)->free_s = *event;
  return 0;
}
EXPORT int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data) { return call_on_host(stream, function, data); }

/* ---- memory */
EXPORT int cuMemAlloc_v2(uintptr_t *pointer, size_t bytes) { return allocate(pointer, bytes, 0); }
EXPORT int cuMemAllocAsync(uintptr_t *pointer, size_t bytes, void *stream) { return allocate(pointer, bytes, 0); }
EXPORT int cuMemFree_v2(uintptr_t pointer) { return give_back(pointer); }
EXPORT int cuMemFreeAsync(uintptr_t pointer, void *stream) { return give_back(pointer); }
EXPORT int cuMemAllocHost_v2(uintptr_t *pointer, size_t bytes) { return allocate(pointer, bytes, 1); }
EXPORT int cuMemHostAlloc(uintptr_t *pointer, size_t bytes, unsigned flags) { return allocate(pointer, bytes, 1); }
EXPORT int cuMemFreeHost(uintptr_t pointer) { return give_back(pointer); }
NOTHING(cuMemHostRegister_v2)
NOTHING(cuMemHostUnregister)
EXPORT int cuMemHostGetDevicePointer_v2(uintptr_t *pointer, void *memory, unsigned flags) { return *pointer = (uintptr_t)memory, 0; }
EXPORT int cuMemGetInfo_v2(size_t *unused, size_t *total) { return *unused = free_bytes(), *total = device_bytes(), 0; }
EXPORT int cuMemGetAddressRange_v2(uintptr_t *begin, size_t *bytes, uintptr_t pointer) {
  return range_of(pointer, begin, bytes) ? 0 : INVALID;
}
EXPORT int cuPointerGetAttribute(void *value, int attribute, uintptr_t pointer) {
  int kind = kind_of(pointer);
  if (attribute == 1) return cuCtxGetCurrent(value);
  if (attribute == 2) return kind ? (*(unsigned *)value = kind, 0) : INVALID;
  if (attribute == 3 || attribute == 4) return *(uintptr_t *)value = pointer, 0;
  return *(int *)value = 0;
}
EXPORT int cuMemcpyHtoDAsync_v2(uintptr_t to, const void *from, size_t n, void *stream) { return copy((void *)to, from, n, TO_DEVICE, stream); }
EXPORT int cuMemcpyDtoHAsync_v2(void *to, uintptr_t from, size_t n, void *stream) { return copy(to, (void *)from, n, TO_HOST, stream); }
EXPORT int cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t n, void *stream) { return copy((void *)to, (void *)from, n, ON_DEVICE, stream); }
/* These wait. */
EXPORT int cuMemcpyHtoD_v2(uintptr_t to, const void *from, size_t n) { return copy((void *)to, from, n, TO_DEVICE, 0), wait_for(0); }
EXPORT int cuMemcpyDtoH_v2(void *to, uintptr_t from, size_t n) { return copy(to, (void *)from, n, TO_HOST, 0), wait_for(0); }
EXPORT int cuMemcpyDtoD_v2(uintptr_t to, uintptr_t from, size_t n) { return copy((void *)to, (void *)from, n, ON_DEVICE, 0); }
EXPORT int cuMemsetD8Async(uintptr_t to, unsigned char value, size_t n, void *stream) { return fill((void *)to, value, 1, n, stream); }
EXPORT int cuMemsetD32Async(uintptr_t to, unsigned value, size_t n, void *stream) { return fill((void *)to, value, 4, n, stream); }
EXPORT int cuMemsetD8_v2(uintptr_t to, unsigned char value, size_t n) { return fill((void *)to, value, 1, n, 0); }
EXPORT int cuMemsetD32_v2(uintptr_t to, unsigned value, size_t n) { return fill((void *)to, value, 4, n, 0); }

/* ---- modules and launches: a function is its name */
HANDLE(cuModuleLoadData)
HANDLE(cuModuleLoadDataEx)
HANDLE(cuModuleLoadFatBinary)
HANDLE(cuLibraryLoadData)
EXPORT int cuModuleGetFunction(Function **function, void *module, const char *name) {
  make((void **)function);
  return snprintf((*function)->name, sizeof(Function), "%s", name), 0;
}
EXPORT int cuLibraryGetKernel(Function **kernel, void *library, const char *name) { return cuModuleGetFunction(kernel, library, name); }
EXPORT int cuKernelGetFunction(void **function, void *kernel) { return *function = kernel, 0; }
EXPORT int cuModuleGetGlobal_v2(uintptr_t *pointer, size_t *bytes, void *module, const char *name) {
  static uintptr_t constants; /* where all constants of all programs lie */
  if (!constants) allocate(&constants, 64 << 20, 0);
  if (pointer) *pointer = constants;
  if (bytes) *bytes = 64 << 20;
  return 0;
}
EXPORT int cuFuncGetAttribute(int *value, int attribute, void *function) {
  static const int usual[] = {1024, 0, 0, 0, 32, 80, 89}; /* threads, registers, versions */
  return *value = attribute < 7 ? usual[attribute] : 0, 0;
}
NOTHING(cuFuncSetAttribute)
NOTHING(cuFuncSetCacheConfig)
EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *function, int size, size_t shared) { return *n = 4, 0; }
EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, void *function, int size, size_t shared, unsigned flags) { return *n = 4, 0; }
EXPORT int cuLaunchKernel(Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **arguments, void **extra) {
  return launch(function->name, (unsigned[]){gx, gy, gz, bx, by, bz}, 0, stream), 0;
}
/* A configuration is grid, block, shared bytes and stream, one after the other. */
EXPORT int cuLaunchKernelEx(const unsigned *configuration, Function *function, void **arguments, void **extra) {
  return launch(function->name, configuration, 0, *(void **)(configuration + 8)), 0;
}

/* ---- graphs: how long their nodes take together */
EXPORT int cuGraphCreate(void **graph, unsigned flags) { return make(graph); }
EXPORT int cuGraphInstantiate(Stream **made, Stream *graph, uint64_t flags) { return make((void **)made), (*made)->work_s = graph->work_s, 0; }
EXPORT int cuGraphInstantiateWithFlags(Stream **made, Stream *graph, uint64_t flags) { return cuGraphInstantiate(made, graph, flags); }
EXPORT int cuGraphAddKernelNode_v2(void **node, Stream *graph, void *after, size_t n, const void **kernel) {
  graph->work_s += seconds_of((const unsigned *)(kernel + 1)); /* behind the function */
  return make(node);
}
EXPORT int cuGraphAddChildGraphNode(void **node, Stream *graph, void *after, size_t n, Stream *child) {
  graph->work_s += child->work_s;
  return make(node);
}
static int small_node(void **node, Stream *graph) { return graph->work_s += KERNEL_S, make(node); }
EXPORT int cuGraphAddMemcpyNode(void **node, Stream *graph) { return small_node(node, graph); }
EXPORT int cuGraphAddMemsetNode(void **node, Stream *graph) { return small_node(node, graph); }
HANDLE(cuGraphAddEmptyNode)
EXPORT int cuGraphLaunch(Stream *made, void *stream) { return note(GRAPH, "graph", 0, stream, made->work_s), 0; }
NOTHING(cuGraphExecUpdate_v2)
NOTHING(cuGraphExecKernelNodeSetParams_v2)
NOTHING(cuGraphExecChildGraphNodeSetParams)
NOTHING(cuGraphExecMemcpyNodeSetParams)
NOTHING(cuGraphExecMemsetNodeSetParams)
NOTHING(cuGraphExecDestroy)
NOTHING(cuGraphDestroy)
EXPORT int cuGraphGetNodes(void *graph, void **nodes, size_t *n) { return *n = 0; }
EXPORT int cuGraphGetRootNodes(void *graph, void **nodes, size_t *n) { return *n = 1, 0; } /* an empty one would be refused */
EXPORT int cuStreamBeginCapture_v2(void *stream, int mode) { return stream_of(stream)->is_capturing = 1, stream_of(stream)->work_s = 0, 0; }
EXPORT int cuStreamBeginCaptureToGraph(void *stream, void *graph, void *after, void *data, size_t n, int mode) {
  *(void **)(stream_of(stream) + 1) = graph;
  return cuStreamBeginCapture_v2(stream, mode);
}
EXPORT int cuStreamEndCapture(void *stream, Stream **graph) {
  Stream *captured = stream_of(stream), **into = (Stream **)(captured + 1);
  captured->is_capturing = 0;
  if (!(*graph = *into)) make((void **)graph);
  (*graph)->work_s += captured->work_s;
  return *into = 0, 0;
}
EXPORT int cuStreamIsCapturing(void *stream, int *status) { return *status = stream_of(stream)->is_capturing, 0; }

/* ---- what others are found by */
EXPORT int cuGetErrorName(int code, const char **text) { return *text = "error of the stand-in", 0; }
EXPORT int cuGetErrorString(int code, const char **text) { return cuGetErrorName(code, text); }
EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
  char second[256];
  Dl_info self;
  dladdr((void *)cuInit, &self);
  void *library = dlopen(self.dli_fname, RTLD_LAZY);
  snprintf(second, sizeof second, "%s_v2", name);
  if (!(*function = dlsym(library, second))) *function = dlsym(library, name);
  if (status) *status = !*function;
  return *function ? 0 : NOT_FOUND;
}
EXPORT int cuGetExportTable(void **table, void *id) { return INVALID; }
NOTHING(cuStreamDestroy_v2)
NOTHING(cuDevicePrimaryCtxRelease_v2)
NOTHING(cuDevicePrimaryCtxSetFlags_v2)
NOTHING(cuModuleUnload)
NOTHING(cuLibraryUnload)
NOTHING(cuCtxSetLimit)
NOTHING(cuCtxEnablePeerAccess)

/* ---- NVML, which TensorFlow wants to be there, and answers that it can do without */
NOTHING(nvmlInit_v2)
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device) { return *device = contexts, 0; }
EXPORT int nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned *generation) { return *generation = 4, 0; }
EXPORT int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *width) { return *width = 16, 0; }
EXPORT int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *state) { return *state = 0, NOT_SUPPORTED; }
EXPORT int nvmlDeviceGetGpuFabricInfoV(void *device, void *found) { return NOT_SUPPORTED; }
EXPORT const char *nvmlErrorString(int code) { return "not supported"; }
