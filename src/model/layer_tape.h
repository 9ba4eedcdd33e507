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

// Records one layer's kernels as eager execution with autograd would launch them. Callers record
// the forward operators in order, each with a function that adds its backward. Finish calls these
// functions in reverse order and determines kept values, recomputed values and peak temporaries.
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
  using Value = int;  // a tensor: an activation, a gradient, or scratch memory
  // A value, or one of the equal parts of a value.
  struct Piece {
    Piece(Value value) : value(value) {}  // NOLINT
    Piece(Value value, PieceRange range) : value(value), range(range) {}
    Value value;
    PieceRange range;
  };

  // `element` is the type of activations and their gradients. `fuses_sums`: the kernel that
  // computes a contribution to a gradient also adds the contribution, and reads one more operand.
  // Otherwise, a separate kernel adds the contribution.
  explicit LayerTape(DataType element, bool fuses_sums = false)
      : element_(element), fuses_sums_(fuses_sums) {}

  // Returns the layer's input, which exists before the first kernel. Call at most once.
  Value Input(std::string name, Bytes bytes);
  Value Make(std::string name, Bytes bytes);
  // Returns a value that this layer reads but another layer keeps. The value's bytes belong to the
  // other layer.
  Value Outside(std::string name, Bytes bytes);
  // Keeps the value for the layer's backward, until the end of backward.
  void Keep(Value value);
  // Keeps a value that other layers read, even if this layer's backward does not read it.
  void KeepForOthers(Value value);
  // Returns a second value for the same tensor, with a separate gradient.
  Value Alias(Value value);

  // Places the value in memory that is allocated once and never freed. Only for communicated values
  // that are not saved. Values with the same name share this memory, such as a module's values in
  // forward and in recomputation.
  void Register(Value value, std::string name);

  // The operands of an operator: a list in braces, or a vector.
  struct Values : std::span<const Piece> {
    Values(std::initializer_list<Piece> values) : span(values.begin(), values.size()) {}  // NOLINT
    Values(const std::vector<Piece>& values) : span(values) {}                            // NOLINT
  };
  // Runs an operator. `parameters` and `gradients` are positions in Layer::tensors, as in
  // Operation.
  void Run(Kernel kernel, Values reads, Values writes, std::vector<int> parameters = {});
  // Runs an operator that writes one new value, and returns the value.
  Value RunTo(std::string name, Kernel kernel, Values reads, std::vector<int> parameters = {}) {
    const Value made = Make(std::move(name), kernel.written);
    Run(std::move(kernel), reads, {made}, std::move(parameters));
    return made;
  }
  // A collective among the ranks along `axes`, from one value to another, or in place. The size of
  // the collective is the size of the larger value; the smaller value is a rank's part.
  struct Collective {
    CollectiveKind kind = CollectiveKind::kAllReduce;
    parallel::AxisSet axes;
    DataType type = DataType::kBf16;
    int distance = 0;                      // kSendRecv: positions between sender and receiver
    std::optional<int> multiprocessors{};  // not set: the default of the collective
    AllToAllLoads loads{};                 // only for kAllToAll
  };
  void Communicate(const Collective& collective, Piece source, Piece target);
  // Makes the host wait for `value`, such as a size, before the host issues the next forward
  // operator. An earlier operator must copy `value` to the host.
  void AwaitOnHost(Value value) { awaited_on_host_ = value; }
  void OnBackward(std::function<void()> differentiate);
  // Adds a backward with either one kernel for the gradients of all inputs, or one kernel per
  // input. Each kernel reads gradients of `outputs` and completes gradients of `parameters`.
  void RunOnBackward(std::vector<Kernel> kernels, Values outputs, Values inputs,
                     std::vector<int> parameters = {});
  // Runs an operator of one kernel, and adds its backward (RunOnBackward).
  void RunBothWays(Kernel forward, std::vector<Kernel> backward, Values inputs, Values outputs,
                   std::vector<int> parameters = {});

  // The operators between BeginFrozen and EndFrozen have only frozen parameters, and their inputs
  // do not depend on trained parameters. These operators have no backward and keep no values.
  void BeginFrozen() { frozen_ = true; }
  void EndFrozen() { frozen_ = false; }

  // The operators between BeginShared and EndShared use parameters of earlier operators. The
  // backward of those earlier operators runs later and completes the gradients.
  void BeginShared() { shared_ = true; }
  void EndShared() { shared_ = false; }

  // The operators between BeginLane and EndLane, and their gradients, run on a second stream, as
  // under autograd. If both streams use a value, one stream waits for the other. A list of
  // operations ends when both streams have finished.
  void BeginLane() { lane_ = 1; }
  void EndLane() { lane_ = 0; }

  // The operators between BeginModule and EndModule belong to the module, which selective
  // recomputation may recompute in backward. Modules must not be nested.
  void BeginModule(Module module) {
    if (!whole_) module_ = module;
  }
  void EndModule() {
    if (!whole_) module_ = Module::kNone;
  }
  // A fused autograd function does not keep the outputs of the operators between BeginRestored and
  // EndRestored. Its backward runs these operators again. If backward is computed in two parts, the
  // outputs are kept.
  void BeginRestored() { restored_ = true; }
  void EndRestored() { restored_ = false; }
  // Like BeginModule and EndModule, but overrides the modules of BeginModule for all operators
  // between BeginWhole and EndWhole.
  void BeginWhole(Module module) {
    module_ = module;
    whole_ = true;
  }
  void EndWhole() {
    module_ = Module::kNone;
    whole_ = false;
  }

  // Returns the gradient of the value. Call this function only in functions that OnBackward
  // registers.
  Value GradientOf(Value value) const;
  // Returns a new contribution to the gradient of `value`, to be passed to Deliver after a kernel
  // has computed the contribution. Every contribution after the first requires a kernel that adds
  // it.
  Value MakeGradient(Value value);
  void Deliver(Value value, Value contribution);
  // Uses the output's gradient as the gradient of the input, for operators such as addition.
  void Pass(Value from, Value to) { Deliver(to, GradientOf(from)); }
  // Makes a temporary value in backward.
  Value MakeScratch(Bytes bytes);
  void RunBackward(Kernel kernel, Values reads, Values writes, std::vector<int> gradients = {},
                   std::vector<int> parameters = {});
  // These functions run an operator of backward that writes one value: a new temporary value, or a
  // new contribution to the gradient of `of`. They return the value.
  Value RunToScratch(Kernel kernel, Values reads) {
    const Value made = MakeScratch(kernel.written);
    RunBackward(std::move(kernel), reads, {made});
    return made;
  }
  Value RunToGradient(Value of, Kernel kernel, Values reads) {
    const Value made = MakeGradient(of);
    RunBackward(std::move(kernel), reads, {made});
    return made;
  }
  void CommunicateBackward(const Collective& collective, Piece source, Piece target);

  // Runs the backward and returns the layer's work. `output` is the layer's output, or empty if the
  // layer ends in the loss. Call Finish once.
  struct Keeping {
    Checkpointing checkpointing = Checkpointing::kNone;
    bool stops_early = false;           // recomputation stops when all needed values exist
    RecomputedModules modules{};        // the modules that Checkpointing::kSelective recomputes
    bool continues_checkpoint = false;  // not the first block of its checkpoint
    bool splits_backward = false;       // also compute backward in two parts; without recomputation
    // Whether weight-gradient GEMMs are delayed (ExpertParallel::delays_weight_gradients). Not
    // allowed together with splits_backward.
    bool delays_weight_gradients = false;
    // Whether the gradient of the layer's input is needed. False if no earlier parameter is
    // trained. Finish then drops operators and values that only this gradient needs.
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
    // The first and the last forward operator that write the variable, as indices. -1: no forward
    // operator writes the variable.
    int first_writer = -1, writer = -1;
    Value gradient = kNoValue;
    Value alias_of = kNoValue;
  };
  struct Use {
    static constexpr std::size_t kMost = 7;
    std::array<Value, kMost> values{};
    std::array<PieceRange, kMost> ranges{};
    std::size_t count = 0;
    // The number of values that the operator reads. In `values`, read values precede written
    // values.
    std::size_t reads = 0;
    std::span<const Value> all() const { return {values.data(), count}; }
    bool Writes(std::size_t i) const { return i >= reads; }
    // For a group operation: returns the value that the operation reads.
    Value source() const { return values[0]; }
    Value target() const { return values[1]; }
  };
  static constexpr Value kNoValue = -1;

  struct Recorded {
    Operation operation;
    Use use;
    Module module = Module::kNone;
    bool restored = false;
    Value awaited_on_host = kNoValue;
    std::size_t differentiates = 0;  // backward: index in differentiate_
  };
  // A function that returns where a value is stored, or no value if that is unknown. Called for
  // values that a list's group operations read or write.
  using Places = std::function<std::optional<ValueId>(Value)>;

  Use UseOf(Values reads, Values writes) const;
  Bytes BytesIn(const Piece& piece) const {
    return Bytes(variables_[piece.value].bytes.count() / piece.range.pieces);
  }
  // Returns an operation without duration that completes the gradients of constants. The kernel of
  // the input's gradient also computes the gradients of constants. These gradients are complete
  // only after the weights' gradients.
  static Recorded GradientsOf(const Operation& operation);
  Recorded RecordedOf(const Collective& collective, Piece source, Piece target) const;
  // Records that the next forward operator writes the value.
  void NoteWriter(Value value);
  // Returns the last operator of the list that writes the value, or Operation::kNoWait if there is
  // none.
  static int LastWriter(std::span<const Recorded> list, Value value);
  // Returns a flag for each value: whether group operations of the list read or write it.
  std::vector<char> CommunicatedIn(std::span<const Recorded> list) const;
  // Appends the list's operations to `operations`. Sets Operation::uses and Operation::waits for
  // group operations. Stores values that have no location yet in new buffers of `work`. Defined in
  // layer_tape_placing.cc.
  class Placement;
  void Place(std::span<const Recorded> list, const Places& place,
             std::vector<Operation>& operations, LayerWork& work) const;
  // Adds waits between kernels of the two lanes to `operations`, which has the operations of
  // `list`. Gradient contributions of the second lane are complete at the list's last kernel.
  static void JoinLanes(std::span<const Recorded> list, std::vector<Operation>& operations);
  // If a kernel before backward writes a value that a collective of backward communicates, adds a
  // write use to the kernel.
  void SayWhatBackwardCommunicates(std::span<const Recorded> list, const Places& place,
                                   std::span<const Operation> backward,
                                   std::vector<Operation>& operations) const;
  // Returns the bytes of each `counted` value that is alive at the memory peak of `list`. A value
  // lives from its first to its last use in the list. Values in `pinned_from_start` live from the
  // list's start. Values in `pinned_to_end` live until the list's end.
  using Counted = std::function<bool(Value)>;
  std::vector<Bytes> Peak(std::span<const Recorded> list, const Counted& counted,
                          Values pinned_from_start, Values pinned_to_end) const;

  // Records the backward operators. Returns the gradient of the layer's output.
  std::optional<Value> WriteBackward(std::optional<Value> output, const Keeping& keeping);
  Value InputGradient() const;  // kNoValue: there is no input gradient

  // The values that outlive the pass that creates them (layer_tape_keeping.cc).
  struct Kept {
    std::vector<int> saved, recomputed;  // [value]: index among the values of this lifetime, or -1
    // Flags for each forward operator. `outcome_stays`: selective_op keeps its outputs.
    // `runs_again`: backward recomputes the operator, unless `outcome_stays` is set.
    std::vector<char> outcome_stays, runs_again;
  };
  // Decides which forward values are saved and which are recomputed, and adds them to `work`.
  // Ignores values with index `activations` or above, which belong to backward.
  Kept KeepValues(std::optional<Value> output, Value activations, const Keeping& keeping,
                  LayerWork& work) const;
  std::vector<char> OperatorsWhoseOutcomeStays(Value activations, const Keeping& keeping) const;
  std::vector<char> OperatorsThatRunAgain(const Keeping& keeping) const;
  // Returns whether backward runs the operator again, although not all operators run again.
  bool IsDropped(const Recorded& recorded, const Keeping& keeping) const;
  static std::optional<ValueId> PlaceIn(Lifetime lifetime, const std::vector<int>& places,
                                        Value value);
  // Returns the values with this lifetime that first exist at forward operator `op`.
  std::vector<ValueId> BegunBy(std::size_t op, Lifetime lifetime,
                               const std::vector<int>& places) const;
  // Computes the temporaries at each pass's memory peak and stores them in the layer's work.
  void SayTemporaries(std::optional<Value> output, std::optional<Value> output_gradient,
                      const Keeping& keeping, const Kept& kept, std::span<const Recorded> recompute,
                      LayerWork& work) const;
  // Drops the backward operators that contribute to no parameter's gradient, and the values kept
  // for these operators.
  void DropGradientOfInput();
  // Keeps the inputs of recomputed modules even if no operator keeps them. Examples are a part of
  // the tokens that is gathered, an activation that is cast to FP8, and a frozen layer's input.
  void KeepInputs(const RecomputedModules& modules);
  // Computes the two parts of backward in LayerWork (layer_tape_parts.cc). `saved` of SplitBackward
  // has each value's index among the saved values.
  struct Parts {
    std::vector<Recorded> input, weight;
    Value input_gradient = kNoValue;  // the input's gradient after backward_input
  };
  Parts PartsOfBackward();
  // Protects the inputs of delayed operations: an operation that would overwrite such an input
  // writes to a new tensor instead.
  class ReadLater;
  // Postpones each weight-gradient GEMM until after the next exchange of experts' rows. Without a
  // further exchange, the GEMM moves to the end of backward.
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
    bool shared = false;
  };
  std::vector<Differentiate> differentiate_;
  std::vector<std::pair<Value, std::size_t>> kept_for_;  // (value, index in differentiate_)
  std::vector<Recorded> backward_;
  Module module_ = Module::kNone;  // module of the next operator
  bool whole_ = false;             // set until EndWhole
  bool restored_ = false;          // set until EndRestored
  bool frozen_ = false;            // set until EndFrozen
  bool shared_ = false;            // set until EndShared
  Value awaited_on_host_ = kNoValue;
  static constexpr std::size_t kLanes = 2;
  std::uint8_t lane_ = 0;  // lane of the next operator
};

}  // namespace stepcast::model
