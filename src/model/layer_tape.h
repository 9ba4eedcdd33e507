#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/all_to_all_loads.h"
#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/model/layer_work.h"
#include "src/model/operation.h"
#include "src/parallel/axis.h"

// Records one layer's kernels the way eager execution with autograd would: forward in order, with
// the differentiation of each operator; then runs the differentiations backward. Kept values,
// recomputed values and peak temporaries follow from the tape, so no separate formulas are needed.
//
//  LayerTape tape(DataType::kBf16);
//  const auto x = tape.Input("input", size);
//  const auto y = tape.Make("act output", size);
//  tape.Keep(x);                                   // its backward needs x
//  tape.Run(forward_kernel, {x}, {y});
//  tape.OnBackward([&, x, y] {
//    const auto dx = tape.MakeGradient(x);
//    tape.RunBackward(backward_kernel, {tape.GradientOf(y)}, {dx});
//    tape.Deliver(x, dx);
//  });
//  LayerWork work = tape.Finish(y, {});
namespace stepcast::model {

class LayerTape {
 public:
  using Value = int;  // a tensor: an activation, its gradient, or scratch
  // A value, or one of its equal parts.
  struct Piece {
    Piece(Value value) : value(value) {}  // NOLINT
    Piece(Value value, PieceRange range) : value(value), range(range) {}
    Value value;
    PieceRange range;
  };

  // `element` is the type of activations and their gradients. With `fuses_sums`, a kernel that runs
  // anyway sums the contributions to one gradient, which costs one more operand to read. Otherwise
  // a separate kernel sums them.
  explicit LayerTape(DataType element, bool fuses_sums = false)
      : element_(element), fuses_sums_(fuses_sums) {}

  // The layer's input, if it has one. It exists before the first kernel. Call at most once.
  Value Input(std::string name, Bytes bytes);
  Value Make(std::string name, Bytes bytes);
  // A value that another layer keeps and this layer reads. It does not count here.
  Value Outside(std::string name, Bytes bytes);
  // Backward needs the value: it stays until the end of the layer's backward.
  void Keep(Value value);
  // The same for a value that other layers read, whatever this layer's backward needs.
  void KeepForOthers(Value value);
  // The same tensor under another name, with a separate gradient.
  Value Alias(Value value);

  // Uses memory that is allocated once and kept for the value. Only for communicated values that
  // are not saved. Values with one name share the memory, such as a module's in forward and in
  // recomputation.
  void Register(Value value, std::string name);

  // Operands of an operator, in braces or in a vector.
  struct Values : std::span<const Piece> {
    Values(std::initializer_list<Piece> values) : span(values.begin(), values.size()) {}  // NOLINT
    Values(const std::vector<Piece>& values) : span(values) {}                            // NOLINT
  };
  // For `parameters` and `gradients`, here and below, see Operation.
  void Run(Kernel kernel, Values reads, Values writes, std::vector<int> parameters = {});
  // A collective among the ranks along `axes`, from one value to another, or in place. Its size is
  // that of the larger value; the smaller one is a rank's part.
  struct Collective {
    CollectiveKind kind = CollectiveKind::kAllReduce;
    parallel::AxisSet axes;
    DataType type = DataType::kBf16;
    int distance = 0;                      // as in GroupOperation
    std::optional<int> multiprocessors{};  // as in GroupOperation
    AllToAllLoads loads{};                 // as in GroupOperation
  };
  void Communicate(const Collective& collective, Piece source, Piece target);
  // The next recorded forward operator is issued only when the host has `value`, which an earlier
  // operator copied to it. For sizes that the host must know.
  void AwaitOnHost(Value value) { awaited_on_host_ = value; }
  void OnBackward(std::function<void()> differentiate);

  // The operators between the two calls are frozen and read nothing that is trained: they have no
  // backward and keep nothing.
  void BeginFrozen() { frozen_ = true; }
  void EndFrozen() { frozen_ = false; }

  // The operators between the two calls, and their gradients, run on a stream beside the compute
  // stream, as autograd does it. Each stream waits for the other if they use the same value, and a
  // list ends when both have ended.
  void BeginLane() { lane_ = 1; }
  void EndLane() { lane_ = 0; }

  // The operators between the two calls belong to the module, which selective recomputation may
  // drop and run again. Modules do not nest.
  void BeginModule(Module module) {
    if (!whole_) module_ = module;
  }
  void EndModule() {
    if (!whole_) module_ = Module::kNone;
  }
  // The same, ignoring any modules that begin or end within.
  void BeginWhole(Module module) {
    module_ = module;
    whole_ = true;
  }
  void EndWhole() {
    module_ = Module::kNone;
    whole_ = false;
  }

  // For functions given to OnBackward.
  Value GradientOf(Value value) const;
  // Makes a contribution to the gradient of `value`; hand it over with Deliver. Second and later
  // contributions to one gradient cost a kernel that adds them.
  Value MakeGradient(Value value);
  void Deliver(Value value, Value contribution);
  // For an operator that passes its gradient on unchanged (addition).
  void Pass(Value from, Value to) { Deliver(to, GradientOf(from)); }
  // Makes a temporary of the backward.
  Value MakeScratch(Bytes bytes);
  void RunBackward(Kernel kernel, Values reads, Values writes, std::vector<int> gradients = {},
                   std::vector<int> parameters = {});
  void CommunicateBackward(const Collective& collective, Piece source, Piece target);

  // Finish runs the backward and returns the work. `output` is the layer's output; none if the
  // layer ends in the loss. Call once.
  struct Keeping {
    Checkpointing checkpointing = Checkpointing::kNone;
    bool stops_early = false;           // see WorkOptions::recompute_stops_early
    RecomputedModules modules{};        // the modules that Checkpointing::kSelective recomputes
    bool continues_checkpoint = false;  // see LayerWork; with Checkpointing::kFull
    bool splits_backward = false;       // see WorkOptions; without recomputation
    // See ExpertParallel; without splits_backward.
    bool delays_weight_gradients = false;
    // If false, nothing before the layer is trained: operators and values that only the gradient of
    // its input needs are dropped.
    bool input_has_gradient = true;
  };
  LayerWork Finish(std::optional<Value> output, const Keeping& keeping);

 private:
  struct Variable {
    std::string name;
    Bytes bytes;
    bool kept = false;
    bool registered = false;
    bool outside = false;
    bool for_others = false;
    // First and last forward operator that writes it; -1: the layer's input, or not of the forward.
    int first_writer = -1, writer = -1;
    Value gradient = kNoValue;
    Value alias_of = kNoValue;
  };
  struct Use {
    static constexpr std::size_t kMost = 7;
    std::array<Value, kMost> values{};
    std::array<PieceRange, kMost> ranges{};
    std::size_t count = 0;
    // number of values that are read; they come first, then the written ones
    std::size_t reads = 0;
    std::span<const Value> all() const { return {values.data(), count}; }
    bool Writes(std::size_t i) const { return i >= reads; }
    // For a group operation.
    Value source() const { return values[0]; }
    Value target() const { return values[1]; }
  };
  static constexpr Value kNoValue = -1;

  struct Recorded {
    Operation operation;
    Use use;
    Module module = Module::kNone;
    Value awaited_on_host = kNoValue;
    std::size_t differentiates = 0;  // backward: index in differentiate_
  };
  // The place of a value that a list's group operations read or write, if known.
  using Places = std::function<std::optional<ValueId>(Value)>;

  Use UseOf(Values reads, Values writes) const;
  Bytes BytesIn(const Piece& piece) const {
    return Bytes(variables_[piece.value].bytes.count() / piece.range.pieces);
  }
  // The gradients of constants that one kernel makes beside its input's, as an operation that
  // takes no time: they are complete with those of the weights.
  static Recorded GradientsOf(const Operation& operation);
  Recorded RecordedOf(const Collective& collective, Piece source, Piece target) const;
  // Notes that the next recorded forward operator writes the value.
  void NoteWriter(Value value);
  // The last operator of the list that writes the value; Operation::kNoWait: none does.
  static int LastWriter(std::span<const Recorded> list, Value value);
  // By value: whether group operations of the list read or write it.
  std::vector<char> CommunicatedIn(std::span<const Recorded> list) const;
  // layer_tape_placing.cc: the list's operations, extended with the uses and waits that its group
  // operations require, and with buffers in `work` for values that have no place yet.
  class Placement;
  void Place(std::span<const Recorded> list, const Places& place,
             std::vector<Operation>& operations, LayerWork& work) const;
  // Adds waits between kernels of the two lanes, in a placed list. The second lane's gradient
  // contributions are complete at the list's last kernel.
  static void JoinLanes(std::span<const Recorded> list, std::vector<Operation>& operations);
  // Declares writes of values that kernels before backward leave for collectives that occur only in
  // backward, as if their own list communicated them.
  void SayWhatBackwardCommunicates(std::span<const Recorded> list, const Places& place,
                                   std::span<const Operation> backward,
                                   std::vector<Operation>& operations) const;
  // The bytes of each `counted` value that is alive at the peak of `list`. A value lives from its
  // first to its last use in the list; pinned ones live from the start, or to the end.
  using Counted = std::function<bool(Value)>;
  std::vector<Bytes> Peak(std::span<const Recorded> list, const Counted& counted,
                          Values pinned_from_start, Values pinned_to_end) const;

  // Records the backward. Returns the gradient of the layer's output.
  std::optional<Value> WriteBackward(std::optional<Value> output, const Keeping& keeping);
  Value InputGradient() const;  // kNoValue: there is none

  // layer_tape_keeping.cc: values that outlive the pass that makes them.
  struct Kept {
    std::vector<int> saved, recomputed;  // by value: index among those of the lifetime, or -1
    // One entry for each forward operator. `outcome_stays`: selective_op keeps the operator's
    // outputs. `runs_again`: the operator is recomputed, unless its output stays.
    std::vector<char> outcome_stays, runs_again;
  };
  // Decides which forward values are saved and which are recomputed, and lists them in `work`.
  // Values from `activations` on belong to backward and are ignored.
  Kept KeepValues(std::optional<Value> output, Value activations, const Keeping& keeping,
                  LayerWork& work) const;
  std::vector<char> OperatorsWhoseOutcomeStays(Value activations, const Keeping& keeping) const;
  std::vector<char> OperatorsThatRunAgain(const Keeping& keeping) const;
  static std::optional<ValueId> PlaceIn(Lifetime lifetime, const std::vector<int>& places,
                                        Value value);
  // Values of the lifetime whose life begins with the forward operator.
  std::vector<ValueId> BegunBy(std::size_t op, Lifetime lifetime,
                               const std::vector<int>& places) const;
  // Computes the peak temporaries of each pass.
  void SayTemporaries(std::optional<Value> output, std::optional<Value> output_gradient,
                      const Keeping& keeping, const Kept& kept, std::span<const Recorded> recompute,
                      LayerWork& work) const;
  // Drops backward operators that contribute to no parameter's gradient, and the values kept for
  // them.
  void DropGradientOfInput();
  // Keeps the inputs of recomputed modules even if nothing else keeps them: a part of the tokens
  // that a module gathers, an activation that it casts to FP8, the input of a frozen product.
  void KeepInputs(const RecomputedModules& modules);
  // layer_tape_parts.cc: the two parts of backward in LayerWork. `saved`: by value, its index
  // there.
  struct Parts {
    std::vector<Recorded> input, weight;
    Value input_gradient = kNoValue;  // as the input's part leaves it
  };
  Parts PartsOfBackward();
  // Protects the inputs of delayed operations: an earlier operation that would write such a value
  // in place writes a new tensor instead.
  class ReadLater;
  // Moves weight-gradient products after the next exchange of experts' rows, or to the end.
  void DelayWeightGradients();
  void SplitBackward(std::optional<Value> output_gradient, std::vector<int> saved, LayerWork& work);

  DataType element_;
  bool fuses_sums_;
  std::vector<Variable> variables_;
  std::optional<Value> input_;
  std::vector<Recorded> forward_;
  struct Differentiate {
    std::function<void()> run;
    std::uint8_t lane = 0;
  };
  std::vector<Differentiate> differentiate_;
  std::vector<std::pair<Value, std::size_t>> kept_for_;  // with the index in differentiate_
  std::vector<Recorded> backward_;
  Module module_ = Module::kNone;  // module of the next operator
  bool whole_ = false;             // until EndWhole
  bool frozen_ = false;            // until EndFrozen
  Value awaited_on_host_ = kNoValue;
  static constexpr std::size_t kLanes = 2;
  std::uint8_t lane_ = 0;  // lane of the next operator
};

}  // namespace stepcast::model
