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
  // A value, or one of several equal parts of it.
  struct Piece {
    Piece(Value value) : value(value) {}  // NOLINT
    Piece(Value value, PieceRange range) : value(value), range(range) {}
    Value value;
    PieceRange range;
  };

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

  // Collectives use memory that is set up once and kept: only of what is communicated and not
  // saved. Values of one name, such as a module's in forward and when it is run again, share it.
  void Register(Value value, std::string name);

  // Of an operator: a few, in braces or in a vector.
  struct Values : std::span<const Piece> {
    Values(std::initializer_list<Piece> values) : span(values.begin(), values.size()) {}  // NOLINT
    Values(const std::vector<Piece>& values) : span(values) {}                            // NOLINT
  };
  // `parameters`, `gradients` here and below: see Operation.
  void Run(Kernel kernel, Values reads, Values writes, std::vector<int> parameters = {});
  // A collective among the ranks along `axes`, from one value to another, or in place. Its size is
  // that of the larger of the two; the smaller one is a rank's part.
  struct Collective {
    CollectiveKind kind = CollectiveKind::kAllReduce;
    parallel::AxisSet axes;
    DataType type = DataType::kBf16;
    int distance = 0;                      // GroupOperation
    std::optional<int> multiprocessors{};  // likewise
    AllToAllLoads loads{};                 // likewise
  };
  void Communicate(const Collective& collective, Piece source, Piece target);
  // The operator of the forward that is recorded next is issued when the host has `value`, which an
  // earlier operator has copied to it: sizes that the host must know.
  void AwaitOnHost(Value value) { awaited_on_host_ = value; }
  void OnBackward(std::function<void()> differentiate);

  // The operators between the two run on a stream beside the compute stream, and so do their
  // gradients, as autograd has it. Each stream waits for the other where they use the same value,
  // and a list ends when both have.
  void BeginLane() { lane_ = 1; }
  void EndLane() { lane_ = 0; }

  // The operators between the two are of the module, which selective recomputation may drop and run
  // again. One at a time.
  void BeginModule(Module module) {
    if (!whole_) module_ = module;
  }
  void EndModule() {
    if (!whole_) module_ = Module::kNone;
  }
  // The same, whatever modules begin and end within.
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
  void CommunicateBackward(const Collective& collective, Piece source, Piece target);

  // Runs the backward and returns the work. `output` is what the layer hands to the next one; none
  // if it ends in the loss. Once.
  struct Keeping {
    Checkpointing checkpointing = Checkpointing::kNone;
    bool stops_early = false;           // see WorkOptions::recompute_stops_early
    RecomputedModules modules{};        // those that Checkpointing::kSelective recomputes
    bool continues_checkpoint = false;  // see LayerWork; with Checkpointing::kFull
    bool splits_backward = false;       // see WorkOptions; without recomputation
    // See ExpertParallel; without splits_backward.
    bool delays_weight_gradients = false;
    // Nothing before the layer is trained: what only the gradient of its input needs is neither run
    // nor kept.
    bool input_has_gradient = true;
  };
  LayerWork Finish(std::optional<Value> output, const Keeping& keeping);

 private:
  struct Variable {
    std::string name;
    Bytes bytes;
    bool kept = false;
    bool registered = false;
    // Forward operators, the first and the last; -1: the layer's input, or not of the forward.
    int first_writer = -1, writer = -1;
    Value gradient = kNoValue;
    Value alias_of = kNoValue;
  };
  struct Use {
    static constexpr std::size_t kMost = 7;
    std::array<Value, kMost> values{};
    std::array<PieceRange, kMost> ranges{};
    std::size_t count = 0;
    std::size_t reads = 0;  // so many of them come first; the others are written
    std::span<const Value> all() const { return {values.data(), count}; }
    bool Writes(std::size_t i) const { return i >= reads; }
    // Of a group operation.
    Value source() const { return values[0]; }
    Value target() const { return values[1]; }
  };
  static constexpr Value kNoValue = -1;

  struct Recorded {
    Operation operation;
    Use use;
    Module module = Module::kNone;
    Value awaited_on_host = kNoValue;
    std::size_t differentiates = 0;  // backward: the place in differentiate_
  };
  // Where values lie that group operations of a list read or write.
  using Places = std::function<std::optional<ValueId>(Value)>;

  Use UseOf(Values reads, Values writes) const;
  Bytes BytesIn(const Piece& piece) const {
    return Bytes(variables_[piece.value].bytes.count() / piece.range.pieces);
  }
  Recorded RecordedOf(const Collective& collective, Piece source, Piece target) const;
  // By the forward operator that is recorded next.
  void NoteWriter(Value value);
  // The last operator of the list that writes the value; Operation::kNoWait: none does.
  static int LastWriter(std::span<const Recorded> list, Value value);
  // Values that group operations of the list read or write.
  std::vector<char> CommunicatedIn(std::span<const Recorded> list) const;
  // layer_tape_placing.cc: the list's operations with what group operations of it make necessary:
  // uses, waits, and buffers in `work` for values that have no place yet.
  class Placement;
  void Place(std::span<const Recorded> list, const Places& place,
             std::vector<Operation>& operations, LayerWork& work) const;
  // Where kernels of one lane wait for those of the other, in a list that has been placed. What the
  // second lane contributes to gradients is complete at the list's last kernel.
  static void JoinLanes(std::span<const Recorded> list, std::vector<Operation>& operations);
  // What kernels of a list before backward leave for collectives of backward alone: they give it
  // what it carries, as they do to what their own list communicates.
  void SayWhatBackwardCommunicates(std::span<const Recorded> list, const Places& place,
                                   std::span<const Operation> backward,
                                   std::vector<Operation>& operations) const;
  // The `counted` values that are alive when they have the most bytes while the operators of `list`
  // run. A value lives from its first to its last use there; `pinned` ones from first use to the
  // end.
  using Counted = std::function<bool(Value)>;
  std::vector<Bytes> Peak(std::span<const Recorded> list, const Counted& counted,
                          Values pinned_from_start, Values pinned_to_end) const;

  // Writes the backward down. Returns the gradient of the layer's output.
  std::optional<Value> WriteBackward(std::optional<Value> output, const Keeping& keeping);
  Value InputGradient() const;  // kNoValue: it has none

  // layer_tape_keeping.cc: what outlives the pass that makes it.
  struct Kept {
    std::vector<int> saved, recomputed;  // by value: its place among those of the lifetime, or -1
    // Both have an entry for each forward operator. `outcome_stays`: selective_op keeps what the
    // operator makes. `runs_again`: the operator lies in what is recomputed, and runs again unless
    // its outcome stays.
    std::vector<char> outcome_stays, runs_again;
  };
  // Decides which values of the forward are saved and which are recomputed, and lists them in
  // `work`. Values from `activations` on are backward's and are left out.
  Kept KeepValues(std::optional<Value> output, Value activations, const Keeping& keeping,
                  LayerWork& work) const;
  std::vector<char> OperatorsWhoseOutcomeStays(Value activations, const Keeping& keeping) const;
  std::vector<char> OperatorsThatRunAgain(const Keeping& keeping) const;
  static std::optional<ValueId> PlaceIn(Lifetime lifetime, const std::vector<int>& places,
                                        Value value);
  // Values of the lifetime that come to life with the forward operator.
  std::vector<ValueId> BegunBy(std::size_t op, Lifetime lifetime,
                               const std::vector<int>& places) const;
  // The height of what passes by while each pass runs.
  void SayTemporaries(std::optional<Value> output, std::optional<Value> output_gradient,
                      const Keeping& keeping, const Kept& kept, std::span<const Recorded> recompute,
                      LayerWork& work) const;
  // Leaves out of the backward what no gradient of a parameter comes of, and what was kept for it.
  void DropGradientOfInput();
  // Keeps what recomputed modules read, also if nothing else keeps it: a part of the tokens that a
  // module gathers, an activation that it casts to FP8, the input of a frozen product.
  void KeepInputs(const RecomputedModules& modules);
  // layer_tape_parts.cc: LayerWork's two parts of backward. `saved`: by value, its index there.
  struct Parts {
    std::vector<Recorded> input, weight;
    Value input_gradient = kNoValue;  // as the input's part leaves it
  };
  Parts PartsOfBackward();
  // What an operation that has been moved back reads stays as it is until then: an operation before
  // it that writes such a value in place writes a new tensor instead.
  class ReadLater;
  // Puts products of weights' gradients behind the next exchange of experts' rows, or at the end.
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
  std::vector<std::pair<Value, std::size_t>> kept_for_;  // and the place in differentiate_
  std::vector<Recorded> backward_;
  Module module_ = Module::kNone;  // that the next operator is of
  bool whole_ = false;             // until EndWhole
  Value awaited_on_host_ = kNoValue;
  static constexpr std::size_t kLanes = 2;
  std::uint8_t lane_ = 0;  // of the next operator
};

}  // namespace stepcast::model
