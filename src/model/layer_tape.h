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
#include "src/base/collective_kind.h"
#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/model/layer_work.h"
#include "src/model/operation.h"
#include "src/parallel/axis.h"

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
//   LayerWork work = tape.Finish(y, {});
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
  // The same tensor under another name, with a gradient of its own.
  Value Alias(Value value);

  // Of an operator: a few, in braces or in a vector.
  struct Values : std::span<const Value> {
    Values(std::initializer_list<Value> values) : span(values.begin(), values.size()) {}  // NOLINT
    Values(const std::vector<Value>& values) : span(values) {}                            // NOLINT
  };
  // `parameters`, `gradients` here and below: see Operation.
  void Run(Kernel kernel, Values reads, Values writes, std::vector<int> parameters = {});
  // A collective among the ranks along `axes`, from one value to another, or in place. Its size is
  // that of the larger of the two; the smaller one is a rank's part.
  void Communicate(CollectiveKind collective, parallel::AxisSet axes, DataType type, Value source,
                   Value target);
  void OnBackward(std::function<void()> differentiate);

  // The operators between the two are of the module, which selective recomputation may drop and run
  // again. One at a time.
  void BeginModule(Module module) { module_ = module; }
  void EndModule() { module_ = Module::kNone; }

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
  void RunBackward(Kernel kernel, Values reads, Values writes, std::vector<int> gradients = {},
                   std::vector<int> parameters = {});
  void CommunicateBackward(CollectiveKind collective, parallel::AxisSet axes, DataType type,
                           Value source, Value target);

  // Runs the backward and returns the work. `output` is what the layer hands to the next one; none
  // if it ends in the loss. Once.
  struct Keeping {
    Checkpointing checkpointing = Checkpointing::kNone;
    bool stops_early = false;        // see WorkOptions::recompute_stops_early
    RecomputedModules modules{};     // those that Checkpointing::kSelective recomputes
    bool continues_segment = false;  // see LayerWork; with Checkpointing::kFull
    bool splits_backward = false;    // see WorkOptions; without recomputation
  };
  LayerWork Finish(std::optional<Value> output, const Keeping& keeping);

 private:
  struct Variable {
    std::string name;
    Bytes bytes;
    bool kept = false;
    int writer = -1;  // forward operator; -1: the layer's input, or not of the forward
    Value gradient = kNoValue;
    Value alias_of = kNoValue;
  };
  struct Use {
    static constexpr std::size_t kMost = 6;
    std::array<Value, kMost> values{};
    std::size_t count = 0;
    std::size_t reads = 0;  // so many of them come first; the others are written
    std::span<const Value> all() const { return {values.data(), count}; }
    bool Writes(std::size_t i) const { return i >= reads; }
  };
  static constexpr Value kNoValue = -1;

  struct Recorded {
    Operation operation;
    Use use;
    Module module = Module::kNone;
    Value source = kNoValue, target = kNoValue;  // of a group operation
  };
  // Where values lie that group operations of a list read or write.
  using Places = std::function<std::optional<ValueUse>(Value)>;

  Use UseOf(Values reads, Values writes) const;
  Recorded Collective(CollectiveKind collective, parallel::AxisSet axes, DataType type,
                      Value source, Value target) const;
  // Values that group operations of the list read or write.
  std::vector<char> CommunicatedIn(std::span<const Recorded> list) const;
  // The list's operations with what group operations of it make necessary: uses, waits, and buffers
  // in `work` for values that have no place yet.
  void Place(std::span<const Recorded> list, const Places& place,
             std::vector<Operation>& operations, LayerWork& work) const;
  // The `counted` values that are alive when they have the most bytes while the operators of `list`
  // run. A value lives from its first to its last use there; `pinned` ones from first use to the
  // end.
  using Counted = std::function<bool(Value)>;
  std::vector<Bytes> Peak(std::span<const Recorded> list, const Counted& counted,
                          Values pinned_from_start, Values pinned_to_end) const;

  // layer_tape_parts.cc: LayerWork's two parts of backward. `saved`: by value, its index there.
  struct Parts {
    std::vector<Recorded> input, weight;
    Value input_gradient = kNoValue;  // as the input's part leaves it
  };
  Parts PartsOfBackward();
  void SplitBackward(std::optional<Value> output_gradient, std::vector<int> saved, LayerWork& work);

  DataType element_;
  bool fuses_sums_;
  std::vector<Variable> variables_;
  std::optional<Value> input_;
  std::vector<Recorded> forward_;
  std::vector<std::function<void()>> differentiate_;
  std::vector<Recorded> backward_;
  Module module_ = Module::kNone;  // that the next operator is of
};

}  // namespace stepcast::model
