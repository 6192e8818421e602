/* cuBLAS, cuDNN and cuFFT: a matrix product, a convolution and a transform take as long as their arithmetic. */
#include <math.h>

#include "stand_in.h"

static void work(const char *name, double operations, double rate, void *stream) {
  note(LIBRARY, name, 0, stream, KERNEL_S + operations / rate);
}

/* ---- cuBLAS. A handle keeps its stream. */
typedef struct { void *stream; } Handle;
HANDLE(cublasCreate_v2)
NOTHING(cublasDestroy_v2)
EXPORT const char *cublasGetStatusString(int code) { return "error of the stand-in"; }
NOTHING(cublasSetMathMode)
NOTHING(cublasSetPointerMode_v2)
NOTHING(cublasSetWorkspace_v2)
NOTHING(cublasSetAtomicsMode)
EXPORT int cublasGetVersion_v2(void *handle, int *version) { return *version = 120500, 0; }
EXPORT int cublasGetProperty(int which, int *value) { return *value = which == 0 ? 12 : which == 1 ? 5 : 0, 0; }
EXPORT int cublasGetPointerMode_v2(void *handle, int *mode) { return *mode = 0; }
EXPORT int cublasGetMathMode(void *handle, int *mode) { return *mode = 0; }
EXPORT int cublasGetStream_v2(Handle *handle, void **stream) { return *stream = handle->stream, 0; }
EXPORT int cublasSetStream_v2(Handle *handle, void *stream) { return handle->stream = stream, 0; }

/* CUDA's and cuDNN's names for numbers of 16 bits. */
static double rate_of(int type) { return type == 2 || type == 14 || type == 9 ? HALF_FLOPS : FLOPS; }
static int product(const char *name, Handle *handle, double m, double n, double k, double batch, int type) {
  return work(name, 2 * m * n * k * batch, rate_of(type), handle->stream), 0;
}
EXPORT int cublasSgemm_v2(Handle *handle, int ta, int tb, int m, int n, int k) { return product(__func__, handle, m, n, k, 1, 0); }
EXPORT int cublasGemmEx(Handle *handle, int ta, int tb, int m, int n, int k, void *alpha, void *a, int type) {
  return product(__func__, handle, m, n, k, 1, type);
}
EXPORT int cublasSgemmEx(Handle *handle, int ta, int tb, int m, int n, int k, void *alpha, void *a, int type) {
  return product(__func__, handle, m, n, k, 1, type);
}
EXPORT int cublasSgemv_v2(Handle *handle, int ta, int m, int n) { return product(__func__, handle, m, n, 1, 1, 0); }
EXPORT int cublasSscal_v2(Handle *handle, int n) { return product(__func__, handle, n, 1, 1, 1, 0); }
EXPORT int cublasSgemmStridedBatched(Handle *handle, int ta, int tb, int m, int n, int k, void *alpha, void *a, int lda, long long sa,
                                     void *b, int ldb, long long sb, void *beta, void *c, int ldc, long long sc, int batch) {
  return product(__func__, handle, m, n, k, batch, 0);
}
EXPORT int cublasGemmStridedBatchedEx(Handle *handle, int ta, int tb, int m, int n, int k, void *alpha, void *a, int at, int lda, long long sa,
                                      void *b, int bt, int ldb, long long sb, void *beta, void *c, int ct, int ldc, long long sc, int batch) {
  return product(__func__, handle, m, n, k, batch, at);
}

/* ---- cuBLASLt: layouts keep how many numbers they have; the root of those of a, b and c is m·n·k */
typedef struct { double rows, columns, batch; int type; } Layout;
HANDLE(cublasLtCreate)
HANDLE(cublasLtMatmulDescCreate)
HANDLE(cublasLtMatmulPreferenceCreate)
NOTHING(cublasLtMatmulDescSetAttribute)
NOTHING(cublasLtMatmulDescDestroy)
NOTHING(cublasLtMatmulPreferenceSetAttribute)
NOTHING(cublasLtMatmulPreferenceDestroy)
NOTHING(cublasLtMatrixLayoutDestroy)
NOTHING(cublasLtDestroy)
EXPORT size_t cublasLtGetVersion(void) { return 120500; }
EXPORT size_t cublasLtGetCudartVersion(void) { return 12050; }
EXPORT int cublasLtMatrixLayoutCreate(Layout **layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  make((void **)layout);
  return **layout = (Layout){(double)rows, (double)columns, 1, type}, 0;
}
EXPORT int cublasLtMatrixLayoutSetAttribute(Layout *layout, int attribute, const int *value, size_t size) {
  if (attribute == 5) layout->batch = *value;
  return 0;
}
EXPORT int cublasLtMatrixLayoutGetAttribute(Layout *layout, int attribute, void *value, size_t size, size_t *written) {
  memset(value, 0, size);
  if (size >= 4) *(int *)value = 1;
  if (written) *written = size;
  return 0;
}
EXPORT int cublasLtMatmulDescGetAttribute(void *description, int attribute, void *value, size_t size, size_t *written) {
  memset(value, 0, size);
  if (written) *written = size;
  return 0;
}
typedef struct { uint64_t algorithm[8]; size_t workspace; int state; float waves; int reserved[4]; } Found;
EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, void *description, void *a, void *b, void *c, void *d, void *preference,
                                          int wanted, Found *found, int *n) {
  memset(found, 0, sizeof *found * wanted);
  return found->waves = 1, *n = 1, 0;
}
EXPORT int cublasLtMatmul(void *handle, void *description, void *alpha, void *a, Layout *la, void *b, Layout *lb, void *beta, void *c,
                          Layout *lc, void *d, Layout *ld, void *algorithm, void *workspace, size_t size, void *stream) {
  double root = sqrt(la->rows * la->columns * lb->rows * lb->columns * ld->rows * ld->columns);
  return work(__func__, 2 * root * ld->batch, rate_of(la->type), stream), 0;
}

/* ---- cuDNN. What a plan computes goes from its convolution up through everything that holds it. */
typedef struct { int kind, type; double operations, numbers, channels; } Descriptor;
enum { TENSOR_TYPE = 901, TENSOR_DIMENSIONS = 902, DESCRIPTORS = 15 };
EXPORT size_t cudnnGetVersion(void) { return 90300; }
EXPORT size_t cudnnGetCudartVersion(void) { return 12050; }
EXPORT int cudnnGetProperty(int which, int *value) { return *value = which == 0 ? 9 : which == 1 ? 3 : 0, 0; }
EXPORT const char *cudnnGetErrorString(int code) { return "error of the stand-in"; }
EXPORT void cudnnGetLastErrorString(char *text, size_t size) { if (size) *text = 0; }
HANDLE(cudnnCreate)
NOTHING(cudnnDestroy)
NOTHING(cudnnGraphVersionCheck)
NOTHING(cudnnOpsVersionCheck)
EXPORT int cudnnGetStream(Handle *handle, void **stream) { return *stream = handle->stream, 0; }
EXPORT int cudnnSetStream(Handle *handle, void *stream) { return handle->stream = stream, 0; }
HANDLE(cudnnCreateTensorDescriptor)
HANDLE(cudnnCreateFilterDescriptor)
HANDLE(cudnnCreateConvolutionDescriptor)
EXPORT int cudnnBackendCreateDescriptor(int kind, Descriptor **made) { return make((void **)made), (*made)->kind = kind, 0; }
NOTHING(cudnnBackendDestroyDescriptor)
NOTHING(cudnnBackendFinalize)
EXPORT int cudnnBackendSetAttribute(Descriptor *to, int attribute, int type, int64_t n, const void *values) {
  if (attribute == TENSOR_TYPE) to->type = *(const int *)values;
  if (attribute == TENSOR_DIMENSIONS) {
    const int64_t *sizes = values;
    to->numbers = 1, to->channels = (double)sizes[1];
    for (int64_t i = 0; i < n; i++) to->numbers *= (double)sizes[i];
  }
  for (int64_t i = 0; type == DESCRIPTORS && i < n; i++) {
    const Descriptor *part = ((Descriptor *const *)values)[i];
    to->operations += part->operations;
    if (part->type) to->type = part->type;
    /* Of the three kinds of convolutions, the filter and what is on its far side. */
    if (attribute == 703 || attribute == 709 || attribute == 715) to->numbers = part->numbers;
    if (attribute == 705 || attribute == 711 || attribute == 717) to->channels = part->numbers / part->channels;
    if (to->kind >= 10 && to->kind <= 12) to->operations = 2 * to->numbers * to->channels;
  }
  return 0;
}
EXPORT int cudnnBackendGetAttribute(Descriptor *from, int attribute, int type, int64_t wanted, int64_t *n, void *values) {
  if (n) *n = type == DESCRIPTORS && attribute != 302 /* knobs */;
  if (n && type == 3) *n = 1;
  if (!values || wanted < 1) return 0;
  if (type == DESCRIPTORS) {
    Descriptor **found = values;
    if (!*found) make((void **)found);
    (*found)->operations = from->operations, (*found)->type = from->type;
  } else if (type == 2) {
    *(char *)values = 0;
  } else if (type == 3) {
    *(int64_t *)values = 0;
  }
  return 0;
}
EXPORT int cudnnBackendExecute(Handle *handle, Descriptor *plan, Descriptor *data) {
  return work(__func__, plan->operations, rate_of(plan->type), handle->stream), 0;
}

/* ---- cuFFT: plans are numbered */
typedef struct { double operations; int is_double; void *stream; } Plan;
#define MOST_PLANS 4096
static Plan plans[MOST_PLANS];
EXPORT int cufftCreate(int *plan) { static int n; return *plan = n++ % MOST_PLANS, 0; }
EXPORT int cufftGetVersion(int *version) { return *version = 11203, 0; }
NOTHING(cufftSetAutoAllocation)
NOTHING(cufftSetWorkArea)
NOTHING(cufftDestroy)
EXPORT int cufftSetStream(int plan, void *stream) { return plans[plan].stream = stream, 0; }
EXPORT int cufftMakePlanMany64(int plan, int rank, long long *n, long long *in, long long is, long long id, long long *out,
                               long long os, long long od, int type, long long batch, size_t *workspace) {
  double size = 1;
  for (int i = 0; i < rank; i++) size *= (double)n[i];
  plans[plan].operations = 5 * size * log2(size) * (double)batch / 2;
  plans[plan].is_double = type >= 0x69;
  return *workspace = 1024, 0;
}
EXPORT int cufftMakePlanMany(int plan, int rank, int *n, int *in, int is, int id, int *out, int os, int od, int type, int batch, size_t *workspace) {
  long long sizes[3];
  for (int i = 0; i < rank; i++) sizes[i] = n[i];
  return cufftMakePlanMany64(plan, rank, sizes, 0, 0, 0, 0, 0, 0, type, batch, workspace);
}
static int transform(const char *name, int plan) {
  return work(name, plans[plan].operations, plans[plan].is_double ? DOUBLE_FLOPS : FLOPS / 4, plans[plan].stream), 0;
}
EXPORT int cufftExecR2C(int plan) { return transform(__func__, plan); }
EXPORT int cufftExecC2R(int plan) { return transform(__func__, plan); }
EXPORT int cufftExecC2C(int plan) { return transform(__func__, plan); }
EXPORT int cufftExecD2Z(int plan) { return transform(__func__, plan); }
EXPORT int cufftExecZ2D(int plan) { return transform(__func__, plan); }
EXPORT int cufftExecZ2Z(int plan) { return transform(__func__, plan); }
