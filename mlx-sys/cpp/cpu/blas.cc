// The BLAS that MLX calls. MLX's wheel is linked to the reference BLAS, which is slow; this library comes earlier in
// the dynamic linker's search order, so that MLX's calls bind here, and are forwarded to OpenBLAS on our threads.
#include "cpu/linear.h"
#include "cpu/pool.h"

#include <cstddef>

extern "C" {
#include "cblas.h"

#define EXPORT __attribute__((visibility("default")))

namespace {

// OpenBLAS hands its parallel parts to our pool, so that two sets of threads never fight for the cores. Its parts
// wait for each other, so all of them must run at once: its thread count is the pool's.
void run_jobs(int, openblas_dojob_callback job, int count, size_t stride, void* data, int argument) {
  troupe::parallel_for(static_cast<size_t>(count), [&](size_t i) {
    job(static_cast<int>(i), static_cast<char*>(data) + i * stride, argument);
  });
}

__attribute__((constructor)) void adopt_threads() {
  troupe::on_pool_resize([](size_t threads) { scipy_openblas_set_num_threads(static_cast<int>(threads)); });
  scipy_openblas_set_threads_callback_function(run_jobs);
}

}  // namespace

EXPORT void cblas_sgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE trans_a, CBLAS_TRANSPOSE trans_b, int m, int n, int k,
                        float alpha, const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc) {
  // A single row is the same whether it is called transposed or not.
  bool plain_a = trans_a == CblasNoTrans || (m == 1 && lda == 1);
  if (order == CblasRowMajor && plain_a && trans_b == CblasTrans && k > 1) {
    troupe::linear({m, n, k, alpha, beta, a, lda, b, troupe::Number::f32, ldb, c, ldc});
    return;
  }
  scipy_cblas_sgemm(order, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

EXPORT void cblas_dgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE trans_a, CBLAS_TRANSPOSE trans_b, int m, int n, int k,
                        double alpha, const double* a, int lda, const double* b, int ldb, double beta, double* c,
                        int ldc) {
  scipy_cblas_dgemm(order, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

EXPORT void cblas_cgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE trans_a, CBLAS_TRANSPOSE trans_b, int m, int n, int k,
                        const void* alpha, const void* a, int lda, const void* b, int ldb, const void* beta, void* c,
                        int ldc) {
  scipy_cblas_cgemm(order, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

}  // extern "C"
