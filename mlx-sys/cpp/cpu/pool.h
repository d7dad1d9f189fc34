// The threads of our CPU kernels and of BLAS: one small pool, asleep when there is no work.
#pragma once

#include <cstddef>
#include <type_traits>

namespace troupe {

using Work = void (*)(void* context, size_t index);

// How many threads work together, the caller included.
__attribute__((visibility("default"))) size_t pool_threads();

// Runs work(context, i) once for every i in 0..count, spread over the pool and the caller, and returns when all are
// done. Calls from several threads take turns. A call from inside a task runs its work on the caller alone.
// Which thread takes which index is not fixed: a task must not depend on it. Tasks must not throw.
__attribute__((visibility("default"))) void pool_run(size_t count, Work work, void* context);

// pool_run for a callable.
template <typename F>
void parallel_for(size_t count, F&& task) {
  pool_run(count, [](void* context, size_t index) { (*static_cast<std::remove_reference_t<F>*>(context))(index); },
           &task);
}

}  // namespace troupe
