// The threads of our CPU kernels and of BLAS: one small pool, asleep when there is no work.
#pragma once

#include <cstddef>
#include <type_traits>

namespace troupe {

using Work = void (*)(void* context, size_t index);

// How many threads work together, the caller included.
__attribute__((visibility("default"))) size_t pool_threads();

// From now on this many work together: at least one, and a bound in pool.cc at most. The default is the cores that
// this process may use. Waits for work under way; not to be called from a task.
__attribute__((visibility("default"))) void set_pool_threads(size_t threads);

// How workers are bound to cores.
enum class Affinity {
  pinned,  // each to a core of its own; while the caller is there, to the core that was the caller's at first
  free,    // to any but the caller's
};

// From now on workers are bound so; pinned is the default. Results never depends on it.
__attribute__((visibility("default"))) void set_pool_affinity(Affinity affinity);

// Calls `call` with the number of threads, now and whenever it changes. One call only is remembered.
void on_pool_resize(void (*call)(size_t threads));

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
