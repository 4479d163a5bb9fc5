#pragma once

// The one place that knows when a backward pass begins, nests, ends or fails: Trireme's subclass of libtorch's autograd
// engine. Hooks on gradients cannot know that they run inside a nested pass, nor that a pass threw; the engine's
// execute() can. Passes of autograd::grad (which accumulate nothing) are not counted.
namespace trireme::comm {

/// Told about the end of the outermost backward pass that it joined.
class BackwardObserver {
 public:
  virtual ~BackwardObserver() = default;
  /// The pass is complete on this thread; may throw, and then the user's backward() throws.
  virtual void backward_ended() = 0;
  /// The pass threw: nothing of it may be used.
  virtual void backward_failed() noexcept = 0;
};

/// Replaces libtorch's default engine by ours; the first call only. Before the first backward of the process.
void install_engine();

/// How deep this thread is inside backward(): 0 outside, 1 in an ordinary pass, more in re-entrant ones.
int backward_depth();

/// Called from inside a pass (a gradient hook): tells `observer` when the outermost one ends. Repeats are ignored.
void join_backward(BackwardObserver* observer);

/// For an observer that is destroyed while a pass is running.
void leave_backward(BackwardObserver* observer) noexcept;

}  // namespace trireme::comm
