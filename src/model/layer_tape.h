#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/model/layer_work.h"

// Writes down one layer's kernels the way eager execution with autograd would: forward in order,
// and with each operator how it is differentiated; then runs the differentiation backwards. What
// is kept, what is recomputed and how much is alive in passing follows from the tape, so that no
// formula for it has to be right.
//
//   LayerTape tape(DataType::kBf16);
//   const auto x = tape.Input("input", size);
//   const auto y = tape.Make("act output", size);
//   tape.Keep(x);                                   // its backward needs x
//   tape.Run(forward_kernel, {x}, {y});
//   tape.OnBackward([&, x, y] {
//     const auto dx = tape.MakeGradient(x);
//     tape.RunBackward(backward_kernel, {tape.GradientOf(y)}, {dx});
//     tape.Deliver(x, dx);
//   });
//   LayerWork work = tape.Finish(y, Checkpointing::kNone);
namespace stepcast::model {

class LayerTape {
 public:
  using Value = int;  // a tensor: an activation, its gradient, or scratch

  // `element` is the type of activations and their gradients.
  // With `fuses_sums` contributions to one gradient are added up by a kernel that runs anyway,
  // which costs another operand to read; else by a kernel of its own.
  explicit LayerTape(DataType element, bool fuses_sums = false)
      : element_(element), fuses_sums_(fuses_sums) {}

  // The layer's input, if it has one: exists before its first kernel. At most once.
  Value Input(std::string name, Bytes bytes);
  Value Make(std::string name, Bytes bytes);
  // Backward needs it: it stays until the end of the layer's backward.
  void Keep(Value value);

  using Values = std::initializer_list<Value>;
  // `parameters`: see ForwardOperator.
  void Run(Kernel kernel, Values reads, Values writes, std::vector<int> parameters = {});
  void OnBackward(std::function<void()> differentiate);

  // The operators between the two are the attention core: what selective recomputation drops and
  // runs again. At most once.
  void BeginCore();
  void EndCore();

  // For functions given to OnBackward.
  Value GradientOf(Value value) const;
  // Room for a contribution to the gradient of `value`, which Deliver hands over. The second and
  // later contributions to one gradient cost a kernel that adds them up.
  Value MakeGradient(Value value);
  void Deliver(Value value, Value contribution);
  // An operator that hands its gradient on unchanged (addition).
  void Pass(Value from, Value to) { Deliver(to, GradientOf(from)); }
  // Scratch of the backward.
  Value MakeScratch(Bytes bytes);
  // `gradients`, `parameters`: see BackwardOperator.
  void RunBackward(Kernel kernel, Values reads, Values writes, std::vector<int> gradients = {},
                   std::vector<int> parameters = {});

  // Runs the backward and returns the work. `output` is what the layer hands to the next one; none
  // if it ends in the loss. Once.
  // `stops_early`: see WorkOptions::recompute_stops_early.
  LayerWork Finish(std::optional<Value> output, Checkpointing checkpointing,
                   bool stops_early = false);

 private:
  struct Variable {
    std::string name;
    Bytes bytes;
    bool kept = false;
    int writer = -1;  // forward operator; -1: the layer's input, or not of the forward
    Value gradient = kNoValue;
  };
  struct Use {
    static constexpr std::size_t kMost = 6;
    std::array<Value, kMost> values{};
    std::size_t count = 0;
    std::span<const Value> all() const { return {values.data(), count}; }
  };
  static constexpr Value kNoValue = -1;

  static Use UseOf(Values reads, Values writes);
  // The `counted` values that are alive when they have the most bytes while the operators of `uses`
  // run. A value lives from its first to its last use there; `pinned` ones from first use to the
  // end.
  template <typename Counted>
  std::vector<Bytes> Peak(std::span<const Use> uses, Counted counted, Values pinned_from_start,
                          Values pinned_to_end) const;

  DataType element_;
  bool fuses_sums_;
  std::vector<Variable> variables_;
  std::optional<Value> input_;
  std::vector<Kernel> forward_;
  std::vector<Use> forward_uses_;
  std::vector<std::vector<int>> forward_parameters_;
  std::vector<std::function<void()>> differentiate_;
  std::vector<BackwardOperator> backward_;
  std::vector<Use> backward_uses_;
  int core_begin_ = 0, core_end_ = 0;
};

}  // namespace stepcast::model
