#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/collective_kind.h"
#include "src/model/layer_operators.h"
#include "src/model/operator_name.h"
#include "src/parallel/axis.h"

// Attention over sequences whose tokens are divided among ranks. Each sequence has 2n chunks for n
// ranks, and rank i has chunks i and 2n - 1 - i, so that under a causal mask all ranks have equal
// work. The shape of the work differs. In ring steps up to the i-th, all queries attend to half of
// another rank's keys; in later steps, half of the queries attend to all of them. The rank in the
// middle represents all.
//
// Sources: transformer_engine/pytorch/attention/dot_product_attention/context_parallel.py;
// torch/distributed/tensor/experimental/_context_parallel/_attention.py.
namespace stepcast::model {
namespace {

using Value = LayerTape::Value;

}  // namespace

parallel::AxisSet LayerOperators::RingAxes() const {
  return options_.context.heads == 1 ? parallel::kContext
                                     : parallel::AxisSet(parallel::Axis::kContextOuter);
}

std::vector<LayerOperators::Block> LayerOperators::RingBlocks() const {
  const std::int64_t ranks = options_.context.parts();
  const std::int64_t s = DocumentLength() / ranks;
  std::vector<Block> blocks{OfEachDocument(s, s, s, s * s, true)};
  for (std::int64_t step = 1; step < ranks; ++step) {
    const bool half_keys = step <= ranks / 2;
    const std::int64_t keys = half_keys ? s / 2 : s;
    blocks.push_back(OfEachDocument(half_keys ? s : s / 2, keys, keys, s * s, false));
  }
  return blocks;
}

Operand LayerOperators::FlashOverContext(const Core& core, std::string_view module,
                                         const AttentionShape& shape) {
  STEPCAST_CHECK(shape.causal,
                 "context parallelism needs a causal mask, because ranks divide the "
                 "tokens so that causal attention is balanced");
  const ContextParallel& context = options_.context;
  if (context.heads == 1) return FlashOfParts(core, module, shape);
  // All-to-alls around the attention, after which a rank has a part of the heads.
  const auto ranks = static_cast<int>(context.heads);
  AttentionShape part = shape;
  part.heads /= ranks;
  part.kv_heads /= ranks;
  const std::int64_t own = Documents() * (DocumentLength() / context.ranks);
  const BlockSizes sizes = SizesOf(shape, {.rows = own, .key_rows = own});
  const Bytes queries = sizes.queries, keys = sizes.key, values = sizes.value;
  const Core divided{.query = tape_->Make(Joined(module, " query, all tokens"), queries),
                     .key = tape_->Make(Joined(module, " key, all tokens"), keys),
                     .value = tape_->Make(Joined(module, " value, all tokens"), values)};
  ExchangeHeads(true, Joined(module, ".to_heads"),
                {{core.query, divided.query, queries},
                 {core.key, divided.key, keys},
                 {core.value, divided.value, values}});
  tape_->OnBackward([=, this] {
    Pieces gradients;
    if (core.fused) {
      for (const Bytes bytes : {queries, keys, values}) {
        gradients.emplace_back(tape_->MakeScratch(bytes));
      }
    } else {
      for (const Value of : {core.query, core.key, core.value}) {
        gradients.emplace_back(tape_->MakeGradient(of));
      }
    }
    ExchangeHeads(false, Joined(module, ".to_tokens.dgrad"),
                  {{tape_->GradientOf(divided.query), gradients[0].value, queries},
                   {tape_->GradientOf(divided.key), gradients[1].value, keys},
                   {tape_->GradientOf(divided.value), gradients[2].value, values}});
    Deliver(core, module, gradients, queries + keys + values);
  });
  const Operand inside = context.parts() == 1 ? FlashOfDocuments(divided, module, part)
                                              : FlashOfParts(divided, module, part);
  const Operand y =
      Make(Joined(module, " output, all heads"), inside.width * ranks, inside.tokens / ranks);
  ExchangeHeads(true, Joined(module, ".to_tokens"), {{inside.value, y.value, sizes.output}});
  tape_->OnBackward([=, this] {
    const Value gradient = tape_->MakeGradient(inside.value);
    ExchangeHeads(false, Joined(module, ".to_heads.dgrad"),
                  {{tape_->GradientOf(y.value), gradient, sizes.output}});
    tape_->Deliver(inside.value, gradient);
  });
  return y;
}

void LayerOperators::ExchangeHeads(bool forward, const std::string& name,
                                   const std::vector<Exchanged>& values) {
  const auto ranks = static_cast<int>(options_.context.heads);
  const LayerTape::Collective all_to_all{
      .kind = CollectiveKind::kAllToAll,
      .axes = options_.context.parts() == 1 ? parallel::kContext
                                            : parallel::AxisSet(parallel::Axis::kContextInner),
      .type = element_};
  std::vector<std::pair<Value, Value>> pieces;  // and what has come
  for (const Exchanged& value : values) {
    const Bytes others(value.bytes.count() / ranks * (ranks - 1));
    const Value own = MakeIn(forward, name + " pieces", value.bytes);
    const Value received = MakeIn(forward, name + " received", others);
    RunIn(forward, Memory(name + ".split", 0, value.bytes, value.bytes), {value.from}, {own});
    CommunicateIn(forward, all_to_all, own, received);
    pieces.emplace_back(own, received);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const LayerTape::Piece own(pieces[i].first, PieceRange{.piece = ranks - 1, .pieces = ranks});
    RunIn(forward, Memory(name + ".order", 0, values[i].bytes, values[i].bytes),
          {own, pieces[i].second}, {values[i].to});
  }
}

Operand LayerOperators::FlashOfParts(const Core& core, std::string_view module,
                                     const AttentionShape& shape) {
  // Chosen keys may be any rank's
  // (megatron/core/transformer/experimental_attention_variant/dsa.py).
  const bool at_once = shape.chosen || (options_.context.method == ContextMethod::kAllGather &&
                                        !options_.context.of_pytorch);
  return at_once ? GatheredAttention(core, module, shape) : RingAttention(core, module, shape);
}

// Ring attention: attention over keys that are passed around the ranks.
class LayerOperators::KeyRing {
 public:
  KeyRing(LayerOperators& operators, const Core& core, std::string_view module,
          const AttentionShape& shape);

  // Records the forward and, for backward, the gradients. Call once.
  Operand Record();

 private:
  // Sums of the gradients over the steps.
  struct GradientSums {
    Value queries = -1, keys = -1;
  };

  bool pytorch() const { return operators_->options_.context.of_pytorch; }
  // Whether one all-gather brings the keys of all ranks, instead of messages.
  bool gathers() const { return operators_->options_.context.method == ContextMethod::kAllGather; }
  std::string StepName(int step) const { return Joined(module_, ".step_") + std::to_string(step); }
  BlockSizes SizesOfStep(int step) const { return operators_->SizesOf(shape_, blocks_[step]); }
  LayerTape::Collective Message(DataType type) const {
    return {.kind = CollectiveKind::kSendRecv,
            .axes = operators_->RingAxes(),
            .type = type,
            .distance = 1};
  }
  // The type in which gradients add up and go around the ring: FP32 with PyTorch, else that of the
  // activations.
  DataType GradientType() const { return pytorch() ? DataType::kFp32 : operators_->element_; }
  Bytes InGradientType(Bytes bytes) const {
    return Bytes(bytes.count() / operators_->element_size_ * SizeOf(GradientType()));
  }

  // The keys and values of each step: first the rank's own, then those received.
  Value PackOwn(bool forward) const;
  void GatherOthers(bool forward, Pieces& keys) const;
  void PassOn(bool forward, Pieces& keys) const;

  void RunStep(int step, LayerTape::Piece keys);
  // Merges the step's output into the first output in FP32; the last step's result becomes the
  // core's output.
  void MergeInFp32(int step);
  void CorrectOutputs();
  void KeepForBackward(Value last_keys);

  void RunBackward(Value last_keys) const;
  // `first`: the first step of backward.
  void RunStepBackward(int step, bool first, Value dy, const LayerTape::Piece& keys,
                       const GradientSums& sums) const;
  void AddGradient(const std::string& name, bool first, Bytes bytes, Value contribution,
                   Value sum) const;
  // Sends the sums of the keys' gradients on around the ring, and returns those received.
  Value PassGradientsOn(Value d_keys) const;
  void DeliverGradients(const GradientSums& sums) const;

  LayerOperators* operators_;
  LayerTape* tape_;
  Core core_;
  std::string_view module_;
  AttentionShape shape_;
  int ranks_ = 1;
  std::vector<Block> blocks_;      // by step
  BlockSizes own_;                 // of the first
  Pieces outputs_, log_sum_exps_;  // by step
  Operand y_;
};

LayerOperators::KeyRing::KeyRing(LayerOperators& operators, const Core& core,
                                 std::string_view module, const AttentionShape& shape)
    : operators_(&operators),
      tape_(operators.tape_),
      core_(core),
      module_(module),
      shape_(shape),
      ranks_(static_cast<int>(operators.options_.context.parts())),
      blocks_(operators.RingBlocks()),
      own_(SizesOfStep(0)) {}

Operand LayerOperators::KeyRing::Record() {
  Pieces keys{PackOwn(true)};
  if (gathers()) GatherOthers(true, keys);
  y_ = operators_->Make(Joined(module_, " output"), shape_.heads * shape_.values(),
                        blocks_.front().rows);
  for (int step = 0; step < ranks_; ++step) {
    if (!gathers() && step + 1 < ranks_) PassOn(true, keys);
    RunStep(step, keys[step]);
    if (pytorch()) MergeInFp32(step);
  }
  if (!pytorch()) CorrectOutputs();
  const Value last_keys = keys.back().value;
  KeepForBackward(last_keys);
  tape_->OnBackward([ring = *this, last_keys] { ring.RunBackward(last_keys); });
  return y_;
}

LayerTape::Value LayerOperators::KeyRing::PackOwn(bool forward) const {
  const Value keys = operators_->MakeIn(forward, Joined(module_, " keys and values"), own_.keys);
  operators_->RunIn(forward, operators_->Memory(Joined(module_, ".pack"), 0, own_.keys, own_.keys),
                    core_.fused ? Pieces{core_.key} : Pieces{core_.key, core_.value}, {keys});
  return keys;
}

void LayerOperators::KeyRing::GatherOthers(bool forward, Pieces& keys) const {
  const Value all = operators_->MakeIn(forward, Joined(module_, " keys and values of all ranks"),
                                       Bytes(own_.keys.count() * ranks_));
  operators_->CommunicateIn(
      forward, {CollectiveKind::kAllGather, operators_->RingAxes(), operators_->element_},
      keys.front(), all);
  for (int i = 1; i < ranks_; ++i) {
    keys.emplace_back(all, PieceRange{.piece = i, .pieces = ranks_});
  }
}

void LayerOperators::KeyRing::PassOn(bool forward, Pieces& keys) const {
  const Value next =
      operators_->MakeIn(forward, Joined(module_, " keys and values received"), own_.keys);
  operators_->CommunicateIn(forward, Message(operators_->element_), keys.back(), next);
  keys.emplace_back(next);
}

void LayerOperators::KeyRing::RunStep(int step, LayerTape::Piece keys) {
  const std::string name = StepName(step);
  const BlockSizes sizes = SizesOfStep(step);
  outputs_.emplace_back(tape_->Make(name + " output", sizes.output));
  log_sum_exps_.emplace_back(tape_->Make(name + " log-sum-exp", sizes.row_numbers));
  tape_->Run(operators_->FlashKernel(name, shape_, blocks_[step]), {core_.query, keys},
             {outputs_.back(), log_sum_exps_.back()},
             step == 0 ? shape_.sink_positions.all() : std::vector<int>());
  if (step == 0) return;
  tape_->Run(operators_->Memory(name + ".lse", 4 * sizes.row_numbers.count() / kFp32Size,
                                2 * sizes.row_numbers, sizes.row_numbers),
             {log_sum_exps_.back(), log_sum_exps_.front()}, {log_sum_exps_.front()});
}

void LayerOperators::KeyRing::MergeInFp32(int step) {
  const std::string name = StepName(step);
  const BlockSizes sizes = SizesOfStep(step);
  const auto memory = [&](const char* suffix, std::int64_t flops, Bytes read, Bytes written) {
    return operators_->Memory(name + suffix, flops, read, written);
  };
  const Bytes wide(sizes.output_elements * kFp32Size);
  const Value block = tape_->RunTo(name + " output in FP32",
                                   memory(".float", 0, sizes.output, wide), {outputs_.back()});
  if (step == 0) {
    outputs_.front() = block;
  } else {
    // out - sigmoid(difference of the logarithms) * (out - block)
    const Value merged = outputs_.front().value;
    const std::int64_t elements = sizes.output_elements;
    tape_->Run(memory(".sub", elements, 2 * wide, wide), {merged, block}, {block});
    tape_->Run(memory(".mul", elements, wide, wide), {block}, {block});
    tape_->Run(memory(".merge", elements, 2 * wide, wide), {merged, block}, {merged});
  }
  if (step + 1 < ranks_) return;
  const Bytes all(Elements(y_) * kFp32Size);
  tape_->Run(memory(".to", 0, all, operators_->Size(y_)), {outputs_.front()}, {y_.value});
}

// Transformer Engine's merge: each step's output is rescaled by its share of the total
// exponentials.
void LayerOperators::KeyRing::CorrectOutputs() {
  for (int step = 0; step < ranks_; ++step) {
    const BlockSizes sizes = SizesOfStep(step);
    tape_->Run(operators_->Memory(StepName(step) + ".correct", 2 * sizes.output_elements,
                                  (step == 0 ? 1 : 2) * sizes.output + 2 * sizes.row_numbers,
                                  sizes.output),
               {outputs_[step], log_sum_exps_[step], log_sum_exps_.front()}, {y_.value});
  }
}

void LayerOperators::KeyRing::KeepForBackward(Value last_keys) {
  tape_->Keep(core_.query);
  if (pytorch()) {
    tape_->Keep(core_.key);
    tape_->Keep(core_.value);
  } else {
    tape_->Keep(last_keys);  // where backward's ring begins
  }
  tape_->Keep(y_.value);
  tape_->Keep(log_sum_exps_.front().value);
}

void LayerOperators::KeyRing::RunBackward(Value last_keys) const {
  const Value dy = tape_->GradientOf(y_.value);
  Pieces keys{pytorch() ? PackOwn(false) : last_keys};
  if (gathers()) GatherOthers(false, keys);
  GradientSums sums;
  sums.queries = core_.fused || pytorch() ? tape_->MakeScratch(InGradientType(own_.queries))
                                          : tape_->MakeGradient(core_.query);
  sums.keys = tape_->MakeScratch(InGradientType(own_.keys));
  for (int i = 0; i < ranks_; ++i) {
    if (!gathers() && i + 1 < ranks_) PassOn(false, keys);
    if (i > 0) sums.keys = PassGradientsOn(sums.keys);
    // Backward begins with the keys that the rank has last in forward. PyTorch's ring begins with
    // the same ones as in forward.
    RunStepBackward(pytorch() ? i : ranks_ - 1 - i, i == 0, dy, keys[i], sums);
  }
  if (pytorch()) sums.keys = PassGradientsOn(sums.keys);  // home
  DeliverGradients(sums);
}

LayerTape::Value LayerOperators::KeyRing::PassGradientsOn(Value d_keys) const {
  const Value received = tape_->MakeScratch(InGradientType(own_.keys));
  tape_->CommunicateBackward(Message(GradientType()), d_keys, received);
  return received;
}

void LayerOperators::KeyRing::RunStepBackward(int step, bool first, Value dy,
                                              const LayerTape::Piece& keys,
                                              const GradientSums& sums) const {
  const BlockSizes sizes = SizesOfStep(step);
  const std::string name = StepName(step);
  const Value dq = tape_->MakeScratch(sizes.queries), dk = tape_->MakeScratch(sizes.keys);
  operators_->RunFlashGradient(name, shape_, blocks_[step], {dy, keys}, [&] {
    return Pieces{dq, dk};
  });
  AddGradient(name + ".dgrad.add_queries", first, sizes.queries, dq, sums.queries);
  AddGradient(name + ".dgrad.add_keys", first, sizes.keys, dk, sums.keys);
}

// The first contribution is copied; later ones are added.
void LayerOperators::KeyRing::AddGradient(const std::string& name, bool first, Bytes bytes,
                                          Value contribution, Value sum) const {
  const Bytes wide = InGradientType(bytes);
  tape_->RunBackward(operators_->Memory(name, first ? 0 : bytes.count() / operators_->element_size_,
                                        first ? bytes : bytes + wide, wide),
                     first ? Pieces{contribution} : Pieces{contribution, sum}, {sum});
}

void LayerOperators::KeyRing::DeliverGradients(const GradientSums& sums) const {
  if (core_.fused) {
    operators_->Deliver(core_, module_, {sums.queries, sums.keys}, own_.queries + own_.keys);
    return;
  }
  const Value dk = tape_->MakeGradient(core_.key), dv = tape_->MakeGradient(core_.value);
  Value dq = sums.queries;
  if (pytorch()) {
    dq = tape_->MakeGradient(core_.query);
    tape_->RunBackward(operators_->Memory(Joined(module_, ".dgrad.to_queries"), 0,
                                          InGradientType(own_.queries), own_.queries),
                       {sums.queries}, {dq});
  }
  tape_->RunBackward(operators_->Memory(Joined(module_, ".dgrad.to_keys"), 0,
                                        InGradientType(own_.keys), own_.keys),
                     {sums.keys}, {dk, dv});
  operators_->Deliver(core_, module_, {dq, dk, dv}, {});
}

Operand LayerOperators::RingAttention(const Core& core, std::string_view module,
                                      const AttentionShape& shape) {
  return KeyRing(*this, core, module, shape).Record();
}

// Attention over gathered keys: the rank's two chunks of queries, each with all keys up to it.
class LayerOperators::GatheredKeys {
 public:
  GatheredKeys(LayerOperators& operators, const Core& core, std::string_view module,
               const AttentionShape& shape);

  // Records the forward and, for backward, the gradients. Call once.
  Operand Record();

 private:
  std::string ChunkName(std::size_t i) const {
    return Joined(module_, ".chunk_") + std::to_string(i);
  }
  // Keys and values of all tokens.
  Pieces Gather(bool forward) const;
  Pieces OwnKeysAndValues(bool forward) const;
  void RunBackward() const;
  // Adds the chunk's contribution to the gradient of all visible keys, `d_all`, and writes the
  // gradient of its queries.
  void RunChunkBackward(std::size_t i, const Pieces& keys, Value d_queries, Value d_all) const;
  // The gradients of the rank's own keys and values.
  Pieces Scatter(Value d_all) const;

  LayerOperators* operators_;
  LayerTape* tape_;
  Core core_;
  std::string_view module_;
  AttentionShape shape_;
  std::int64_t rows_ = 0;            // of the rank's tokens
  BlockSizes own_, whole_;           // of the rank's keys, and of all ranks'
  std::array<Bytes, 2> part_, all_;  // likewise, of keys and of values
  std::vector<Block> blocks_;        // by chunk
  Operand y_;
};

LayerOperators::GatheredKeys::GatheredKeys(LayerOperators& operators, const Core& core,
                                           std::string_view module, const AttentionShape& shape)
    : operators_(&operators), tape_(operators.tape_), core_(core), module_(module), shape_(shape) {
  const std::int64_t ranks = operators.options_.context.parts();
  const std::int64_t s = operators.DocumentLength() / ranks, half = s / 2;
  rows_ = operators.Documents() * s;
  own_ = operators.SizesOf(shape, {.rows = rows_, .key_rows = rows_});
  whole_ = operators.SizesOf(shape, {.rows = rows_, .key_rows = rows_ * ranks});
  part_ = {own_.key, own_.value};
  all_ = {whole_.key, whole_.value};
  // Twice the pairs of the queries before a position.
  const auto seen_twice = [&shape](std::int64_t position) {
    const std::int64_t hidden =
        shape.chosen ? std::max<std::int64_t>(0, position - shape.window) : 0;
    return position * position - hidden * hidden;
  };
  for (const std::int64_t chunk : {ranks / 2, 2 * ranks - 1 - ranks / 2}) {
    const std::int64_t keys = (chunk + 1) * half;
    const std::int64_t visible = shape.chosen ? std::min(keys, shape.window) : keys;
    blocks_.push_back(operators.OfEachDocument(half, keys, visible,
                                               seen_twice(keys) - seen_twice(chunk * half), false));
  }
}

Operand LayerOperators::GatheredKeys::Record() {
  const Pieces keys = Gather(true);
  y_ = operators_->Make(Joined(module_, " output"), shape_.heads * shape_.values(), rows_);
  const Value log_sum_exp = tape_->Make(Joined(module_, " log-sum-exp"), own_.row_numbers);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    tape_->Run(operators_->FlashKernel(ChunkName(i), shape_, blocks_[i]),
               {core_.query, keys[0], keys[1]}, {y_.value, log_sum_exp},
               i == 0 ? shape_.sink_positions.all() : std::vector<int>());
  }
  for (const Value kept : {core_.query, core_.key, core_.value, y_.value, log_sum_exp}) {
    tape_->Keep(kept);
  }
  tape_->OnBackward([gathered = *this] { gathered.RunBackward(); });
  return y_;
}

LayerOperators::Pieces LayerOperators::GatheredKeys::OwnKeysAndValues(bool forward) const {
  if (!core_.fused) return {core_.key, core_.value};
  const Value key = operators_->MakeIn(forward, Joined(module_, " key"), part_[0]);
  const Value value = operators_->MakeIn(forward, Joined(module_, " value"), part_[1]);
  operators_->RunIn(forward,
                    operators_->Memory(Joined(module_, ".contiguous"), 0, own_.keys, own_.keys),
                    {core_.key}, {key, value});
  return {key, value};
}

LayerOperators::Pieces LayerOperators::GatheredKeys::Gather(bool forward) const {
  Pieces gathered;
  for (const LayerTape::Piece& own : OwnKeysAndValues(forward)) {
    gathered.emplace_back(
        operators_->MakeIn(forward, Joined(module_, " ranks' parts"), all_[gathered.size()]));
    operators_->CommunicateIn(
        forward, {CollectiveKind::kAllGather, operators_->RingAxes(), operators_->element_}, own,
        gathered.back());
  }
  Pieces ordered;
  for (std::size_t i = 0; i < gathered.size(); ++i) {
    ordered.emplace_back(operators_->MakeIn(forward, Joined(module_, " all tokens"), all_[i]));
    operators_->RunIn(forward, operators_->Memory(Joined(module_, ".order"), 0, all_[i], all_[i]),
                      {gathered[i]}, {ordered.back()});
  }
  return ordered;
}

void LayerOperators::GatheredKeys::RunBackward() const {
  const Pieces keys = Gather(false);
  const Value d_queries =
      core_.fused ? tape_->MakeScratch(own_.queries) : tape_->MakeGradient(core_.query);
  const Value d_all = tape_->MakeScratch(whole_.keys);
  for (std::size_t i = 0; i < blocks_.size(); ++i) RunChunkBackward(i, keys, d_queries, d_all);
  const Pieces scattered = Scatter(d_all);
  operators_->Deliver(core_, module_, {d_queries, scattered[0], scattered[1]},
                      own_.queries + own_.keys);
}

void LayerOperators::GatheredKeys::RunChunkBackward(std::size_t i, const Pieces& keys,
                                                    Value d_queries, Value d_all) const {
  const BlockSizes sizes = operators_->SizesOf(shape_, blocks_[i]);
  const Value d_seen = tape_->MakeScratch(sizes.keys);
  operators_->RunFlashGradient(ChunkName(i), shape_, blocks_[i],
                               {tape_->GradientOf(y_.value), keys[0], keys[1]}, [&] {
                                 return Pieces{d_queries, d_seen};
                               });
  tape_->RunBackward(operators_->Memory(ChunkName(i) + ".dgrad.add_keys", sizes.keys.count() / 2,
                                        2 * sizes.keys, i == 0 ? whole_.keys : sizes.keys),
                     i == 0 ? Pieces{d_seen} : Pieces{d_seen, d_all}, {d_all});
}

LayerOperators::Pieces LayerOperators::GatheredKeys::Scatter(Value d_all) const {
  Pieces scattered;
  for (const char* of : {" key", " value"}) {
    const std::size_t i = scattered.size();
    const Value ordered = tape_->RunToScratch(
        operators_->Memory(Joined(module_, of) + ".dgrad.order", 0, all_[i], all_[i]), {d_all});
    scattered.emplace_back(core_.fused         ? tape_->MakeScratch(part_[i])
                           : scattered.empty() ? tape_->MakeGradient(core_.key)
                                               : tape_->MakeGradient(core_.value));
    tape_->CommunicateBackward(
        {CollectiveKind::kReduceScatter, operators_->RingAxes(), operators_->element_}, ordered,
        scattered.back());
  }
  return scattered;
}

Operand LayerOperators::GatheredAttention(const Core& core, std::string_view module,
                                          const AttentionShape& shape) {
  return GatheredKeys(*this, core, module, shape).Record();
}

LayerTape::Value LayerOperators::MakeIn(bool forward, std::string name, Bytes bytes) {
  return forward ? tape_->Make(std::move(name), bytes) : tape_->MakeScratch(bytes);
}

void LayerOperators::RunIn(bool forward, Kernel kernel, const Pieces& reads, const Pieces& writes) {
  if (forward) {
    tape_->Run(std::move(kernel), reads, writes);
  } else {
    tape_->RunBackward(std::move(kernel), reads, writes);
  }
}

void LayerOperators::CommunicateIn(bool forward, const LayerTape::Collective& collective,
                                   LayerTape::Piece source, LayerTape::Piece target) {
  if (forward) {
    tape_->Communicate(collective, source, target);
  } else {
    tape_->CommunicateBackward(collective, source, target);
  }
}

}  // namespace stepcast::model
