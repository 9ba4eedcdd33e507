// Exchange of rows with experts: a row for each token and expert (Dispatcher::kAllToAll), or every
// rank's tokens on every other rank (kAllGather).
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/mixture_operators.h"
#include "src/model/operator_name.h"

namespace stepcast::model {
namespace {

using Piece = LayerTape::Piece;
using Pieces = std::vector<Piece>;

// Kernels of a sort of tokens by expert, which replaces a permutation's map.
constexpr std::int64_t kSortKernels = 6;
// Kernels that sum the gathered counts: rows to and from each rank, and rows of each expert
// (token_dispatcher.py, MoEAlltoAllTokenDispatcher.preprocess).
constexpr std::int64_t kCountKernels = 6;

}  // namespace

void MixtureOperators::Count() {
  if (options_.fixed_rows) return;
  const bool host_needs_counts = divided() || options_.products != ExpertProducts::kGrouped;
  const Bytes own(experts_.count * kCountSize);
  const Value counts = tape_.Make("rows of each expert", own);
  tape_.Run(Small("mlp.dispatch.counts", Bytes(tokens_ * experts_.count * kMaskSize), own), {map_},
            {counts});
  Value all = counts;
  Bytes bytes = own;
  if (divided()) {
    bytes = options_.ranks * options_.tensor * own;
    all = tape_.Make("rows of all ranks for each expert", bytes);
    tape_.Communicate({CollectiveKind::kAllGather, ranks_and_parts(), DataType::kFp32}, counts,
                      all);
  }
  const Value sums = tape_.Make("rows of each rank", own);
  Repeat(true, kCountKernels, Small("mlp.dispatch.sums", bytes, own), {all}, {sums});
  if (!host_needs_counts) return;
  counts_on_host_ = tape_.Make("counts on the host", Bytes());
  tape_.Run(Small("mlp.dispatch.counts_to_host", own, own), {sums}, {counts_on_host_});
}

MixtureOperators::Rows MixtureOperators::Permute(const Operand& x) {
  const std::int64_t scores = tokens_ * experts_.count;
  Rows permuted{.count = sent_rows()};
  const Bytes rows = RowBytes(permuted.count), weights = WeightBytes(permuted.count);
  const Bytes row_map(options_.fused_permutation ? tokens_ * (2 * experts_.count + 1) * kFp32Size
                                                 : permuted.count * kIndexSize);
  row_map_ = tape_.Make("map of permuted rows", row_map);
  tape_.Keep(row_map_);
  if (options_.fused_permutation) {
    Repeat(true, kMapKernels, Small("mlp.permute.map", Bytes(scores * kMaskSize), row_map), {map_},
           {row_map_});
  } else {
    const Bytes keys(scores * kIndexSize);
    Repeat(true, kSortKernels, Small("mlp.permute.sort", keys, keys), {map_}, {row_map_});
  }
  const std::int64_t room = exchanged_rows();
  permuted.rows = tape_.Make("permuted rows", RowBytes(room));
  Pieces written{permuted.rows};
  if (options_.weighs_in_activation()) {
    permuted.weights = tape_.Make("weights of permuted rows", WeightBytes(room));
    written.emplace_back(permuted.weights);
  }
  tape_.Run(Small("mlp.permute", operators_.Size(x) + weights, rows + weights),
            {x.value, probabilities_, row_map_}, written);
  tape_.OnBackward([=, this] {
    const Value dx = tape_.MakeGradient(x.value);
    Pieces reads{tape_.GradientOf(permuted.rows), row_map_}, writes{dx};
    Value dp = -1;
    if (options_.weighs_in_activation()) {
      dp = tape_.MakeGradient(probabilities_);
      reads.emplace_back(tape_.GradientOf(permuted.weights));
      writes.emplace_back(dp);
    }
    tape_.RunBackward(
        operators_.Memory("mlp.permute.dgrad", permuted.count * width_, rows + weights,
                          operators_.Size(x) + (dp < 0 ? Bytes() : Bytes(scores * kFp32Size))),
        reads, writes);
    tape_.Deliver(x.value, dx);
    if (dp >= 0) tape_.Deliver(probabilities_, dp);
  });
  return permuted;
}

Pieces MixtureOperators::Exchange(bool forward, std::string_view name, Value from, Bytes bytes,
                                  AllToAllLoads::First first) {
  return Exchange(
      forward, name, from, bytes,
      {.axes = parallel::kExpert, .ranks = options_.ranks, .loads = options_.LoadsOf(first)});
}

Pieces MixtureOperators::Exchange(bool forward, std::string_view name, Value from, Bytes bytes,
                                  const Reach& reach) {
  const auto ranks = static_cast<int>(reach.ranks);
  const Value others = operators_.MakeIn(forward, Joined(name, ", from other ranks"),
                                         Bytes(bytes.count() / ranks * (ranks - 1)));
  operators_.CommunicateIn(forward,
                           {.kind = CollectiveKind::kAllToAll,
                            .axes = reach.axes,
                            .type = reach.type.value_or(operators_.element_),
                            .multiprocessors = reach.multiprocessors,
                            .loads = reach.loads},
                           LayerTape::Piece(from), others);
  return {Piece(from, PieceRange{.piece = ranks - 1, .pieces = ranks}), others};
}

LayerTape::Value MixtureOperators::GatherParts(bool forward, std::string_view name, Value part,
                                               Bytes whole, DataType type) {
  const Value all = operators_.MakeIn(forward, std::string(name), whole);
  operators_.CommunicateIn(
      forward, {CollectiveKind::kAllGather, parallel::Axis::kExpertTensor, type}, part, all);
  return all;
}

LayerTape::Value MixtureOperators::ScatterParts(bool forward, std::string_view name, Value whole,
                                                Bytes part, DataType type) {
  const Value own = operators_.MakeIn(forward, std::string(name), part);
  operators_.CommunicateIn(
      forward, {CollectiveKind::kReduceScatter, parallel::Axis::kExpertTensor, type}, whole, own);
  return own;
}

LayerTape::Value MixtureOperators::SortMap(std::string_view name, std::int64_t rows) {
  const Bytes bytes(rows * kFp32Size);
  const Value map = tape_.Make(Joined(name, " output"), bytes);
  tape_.Keep(map);
  tape_.Run(Small(name, Bytes(), bytes), {}, {map});
  return map;
}

// The all-to-all of rows and, if ranks have parts of experts, the gather of its result. With
// several experts, a copy groups the rows of each expert; with one, the rank's own rows are copied
// next to the others'.
class MixtureOperators::RowDispatch {
 public:
  RowDispatch(MixtureOperators& mixture, const Rows& permuted);

  // Records the forward and, for backward, the gradients. Call once.
  Rows Record();

 private:
  // Rows, or the rows' weights, on their way to the experts.
  struct Dispatched {
    Value from, to;
    Bytes sent, whole;  // among ranks, and of all parts of the experts
    std::string name;
    Kernel sort;
  };

  const ExpertParallel& options() const { return mixture_->options_; }
  bool weighs() const { return options().weighs_in_activation(); }
  Kernel SortKernel(Bytes whole) const;

  Pieces Exchange(bool forward, const Dispatched& dispatched, Value from) const;
  void Sort(const Dispatched& dispatched, const Pieces& arrived);
  // Gathers the rows that arrived at the ranks of all parts of the experts.
  Value GatherAllParts(const Dispatched& dispatched, const Pieces& arrived);

  void RunBackward() const;
  Value SortBack(const Dispatched& dispatched) const;
  // Copies the rank's own rows in among those that have arrived.
  void DeliverGradient(const Dispatched& dispatched, const Pieces& returned) const;

  MixtureOperators* mixture_;
  LayerTape* tape_;
  Rows rows_;
  std::vector<Dispatched> dispatched_;
  std::optional<Value> map_;  // of the sort
};

MixtureOperators::RowDispatch::RowDispatch(MixtureOperators& mixture, const Rows& permuted)
    : mixture_(&mixture), tape_(&mixture.tape_) {
  const std::int64_t received = mixture.exchanged_rows();
  const std::int64_t parts = options().tensor;
  rows_.count = mixture.received_rows() * parts;
  rows_.rows = tape_->Make("rows of experts", mixture.RowBytes(rows_.count));
  if (weighs()) {
    rows_.weights = tape_->Make("weights of experts' rows", mixture.WeightBytes(rows_.count));
  }
  const bool several = mixture.local_experts() > 1;
  if (several) map_ = mixture.SortMap("mlp.dispatch.sort_map", rows_.count);
  const Bytes own = mixture.RowBytes(received / options().ranks);
  const Bytes all = mixture.RowBytes(rows_.count);
  const Kernel sort = several || parts > 1 ? mixture.Small("mlp.dispatch.sort", all, all)
                                           : mixture.Small("mlp.dispatch.own_rows", own, own);
  dispatched_.push_back({.from = permuted.rows,
                         .to = rows_.rows,
                         .sent = mixture.RowBytes(received),
                         .whole = mixture.RowBytes(received * parts),
                         .name = "rows",
                         .sort = sort});
  if (!weighs()) return;
  dispatched_.push_back({.from = permuted.weights,
                         .to = rows_.weights,
                         .sent = mixture.WeightBytes(received),
                         .whole = mixture.WeightBytes(received * parts),
                         .name = "weights of rows",
                         .sort = sort});
  Kernel& sort_weights = dispatched_.back().sort;
  sort_weights.read = sort_weights.written = dispatched_.back().whole;
}

MixtureOperators::Rows MixtureOperators::RowDispatch::Record() {
  if (mixture_->counts_on_host_ >= 0) tape_->AwaitOnHost(mixture_->counts_on_host_);
  // All exchanges are issued before the first copy.
  std::vector<Pieces> arrived;
  for (const Dispatched& each : dispatched_) arrived.push_back(Exchange(true, each, each.from));
  mixture_->RunBeside(mixture_->beside_.dispatch);
  for (std::size_t i = 0; i < dispatched_.size(); ++i) Sort(dispatched_[i], arrived[i]);
  tape_->OnBackward([dispatch = *this] { dispatch.RunBackward(); });
  return rows_;
}

Pieces MixtureOperators::RowDispatch::Exchange(bool forward, const Dispatched& dispatched,
                                               Value from) const {
  if (options().ranks == 1) return {from};
  return mixture_->Exchange(
      forward, dispatched.name, from, dispatched.sent,
      forward ? AllToAllLoads::First::kReceivesMost : AllToAllLoads::First::kSendsMost);
}

void MixtureOperators::RowDispatch::Sort(const Dispatched& dispatched, const Pieces& arrived) {
  Pieces reads = arrived;
  if (options().tensor > 1) reads = {GatherAllParts(dispatched, arrived)};
  if (map_) reads.emplace_back(*map_);
  tape_->Run(dispatched.sort, reads, {dispatched.to});
}

LayerTape::Value MixtureOperators::RowDispatch::GatherAllParts(const Dispatched& dispatched,
                                                               const Pieces& arrived) {
  LayerOperators& operators = mixture_->operators_;
  const Value together = operators.MakeIn(true, dispatched.name + ", received", dispatched.sent);
  operators.RunIn(true, mixture_->Small("mlp.dispatch.own_rows", dispatched.sent, dispatched.sent),
                  arrived, {together});
  return mixture_->GatherParts(true, dispatched.name + " of all parts", together, dispatched.whole,
                               operators.element_);
}

// The gradients of the weights come first, then those of the rows.
void MixtureOperators::RowDispatch::RunBackward() const {
  if (!options().overlaps_passes) {
    for (std::size_t i = dispatched_.size(); i-- > 0;) {
      const Dispatched& each = dispatched_[i];
      DeliverGradient(each, Exchange(false, each, SortBack(each)));
    }
    return;
  }
  std::vector<Value> ordered(dispatched_.size());
  std::vector<Pieces> returned(dispatched_.size());
  for (std::size_t i = dispatched_.size(); i-- > 0;) ordered[i] = SortBack(dispatched_[i]);
  for (std::size_t i = dispatched_.size(); i-- > 0;) {
    returned[i] = Exchange(false, dispatched_[i], ordered[i]);
  }
  for (std::size_t i = dispatched_.size(); i-- > 0;) DeliverGradient(dispatched_[i], returned[i]);
}

LayerTape::Value MixtureOperators::RowDispatch::SortBack(const Dispatched& dispatched) const {
  Kernel copy = dispatched.sort;
  copy.name += ".dgrad";
  const Value ordered = tape_->MakeScratch(dispatched.whole);
  Pieces reads{tape_->GradientOf(dispatched.to)};
  if (map_) reads.emplace_back(*map_);
  tape_->RunBackward(copy, reads, {ordered});
  if (options().tensor == 1) return ordered;
  const Value sums = mixture_->ScatterParts(false, dispatched.name, ordered, dispatched.sent,
                                            mixture_->operators_.element_);
  const Value own = tape_->MakeScratch(dispatched.sent);
  tape_->RunBackward(mixture_->Small("mlp.dispatch.sums.dgrad", dispatched.sent, dispatched.sent),
                     {sums}, {own});
  return own;
}

void MixtureOperators::RowDispatch::DeliverGradient(const Dispatched& dispatched,
                                                    const Pieces& returned) const {
  const Value gradient = tape_->MakeGradient(dispatched.from);
  const Bytes own(dispatched.sent.count() / options().ranks);
  tape_->RunBackward(mixture_->Small("mlp.dispatch.own_rows.dgrad", own, own), returned,
                     {gradient});
  tape_->Deliver(dispatched.from, gradient);
}

MixtureOperators::Rows MixtureOperators::Dispatch(const Rows& permuted) {
  if (!divided()) return permuted;
  return RowDispatch(*this, permuted).Record();
}

// Sends rows, in the order in which the ranks' parts were received, back to their ranks.
Operand MixtureOperators::Combine(const Operand& made, const Operand& x) {
  if (!divided()) return AddUpRows({made.value}, made.value, x);
  const std::int64_t received = exchanged_rows();
  const Bytes whole = RowBytes(received * options_.tensor), part = RowBytes(received);
  const Value ordered = tape_.Make("rows for other ranks", part);
  const bool sorts = local_experts() > 1 || options_.tensor > 1;
  const Bytes own(part.count() / options_.ranks);
  Pieces sorted_reads{made.value};
  if (local_experts() > 1) sorted_reads.emplace_back(SortMap("mlp.combine.sort_map", made.tokens));
  const Kernel sort =
      sorts ? Small("mlp.combine.sort", whole, whole) : Small("mlp.combine.own_rows", own, own);
  // Parts are summed in the type of the weights.
  const DataType sum_type = options_.router_type;
  if (options_.tensor > 1) {
    const Value sorted =
        tape_.Make("rows of all parts", BytesOf(received * options_.tensor * width_, sum_type));
    tape_.Run(sort, sorted_reads, {sorted});
    const Value sums =
        ScatterParts(true, "summed rows", sorted, BytesOf(received * width_, sum_type), sum_type);
    tape_.Run(Small("mlp.combine.cast", BytesOf(received * width_, sum_type), part), {sums},
              {ordered});
  } else {
    tape_.Run(sort, sorted_reads, {ordered});
  }
  tape_.OnBackward([=, this] {
    Value gradient = tape_.GradientOf(ordered);
    if (options_.tensor > 1) {
      gradient = GatherParts(false, "gradients of rows", gradient, whole, operators_.element_);
    }
    const Value back = tape_.MakeGradient(made.value);
    Kernel copy = sort;
    copy.name += ".dgrad";
    Pieces reads{gradient};
    reads.insert(reads.end(), sorted_reads.begin() + 1, sorted_reads.end());
    tape_.RunBackward(copy, reads, {back});
    tape_.Deliver(made.value, back);
  });
  if (options_.ranks == 1) return AddUpRows({ordered}, ordered, x);
  const Pieces returned =
      Exchange(true, "returned rows", ordered, part, AllToAllLoads::First::kSendsMost);
  RunBeside(beside_.combine);
  return AddUpRows(returned, ordered, x);
}

// The gradient, operation by operation, of rows that were multiplied by their weights in FP32. The
// rows' gradient replaces the input.
void MixtureOperators::UnweighRows(Value rows, Value in_fp32, Value weights) {
  const std::int64_t count = sent_rows();
  const Bytes narrow = RowBytes(count), wide(count * width_ * kFp32Size);
  const Value gradient = tape_.MakeScratch(wide), scaled = tape_.MakeScratch(wide),
              products = tape_.MakeScratch(wide);
  tape_.RunBackward(Small("mlp.combine.cast.dgrad", narrow, wide), {rows}, {gradient});
  tape_.RunBackward(Small("mlp.combine.weigh.dgrad", wide, wide), {gradient, probabilities_},
                    {scaled});
  tape_.RunBackward(Small("mlp.combine.weights.product", 2 * wide, wide), {gradient, in_fp32},
                    {products});
  tape_.RunBackward(operators_.Memory("mlp.combine.weights.grad", count * width_, wide,
                                      Bytes(tokens_ * experts_.count * kFp32Size)),
                    {products}, {weights});
  tape_.RunBackward(Small("mlp.combine.to_fp32.dgrad", wide, narrow), {scaled}, {rows});
}

// Sums the rows of each token. Its backward puts each row's gradient where the row came from and
// sends it there.
Operand MixtureOperators::AddUpRows(const Pieces& returned, Value gradients_of, const Operand& x) {
  const std::int64_t count = sent_rows();
  const Bytes rows = RowBytes(count), out = operators_.Size(x), sent = RowBytes(exchanged_rows());
  const Operand y = operators_.Make("mlp.experts output", width_, tokens_);
  Value weighed = -1;
  if (options_.weighs_in_activation()) {
    Pieces reads = returned;
    reads.emplace_back(row_map_);
    tape_.Run(operators_.Memory("mlp.unpermute", count * width_, rows, out), reads, {y.value});
  } else {
    // In FP32, from a copy kept for the weights' gradients; then zeros, to which rows are added.
    const Bytes wide(count * width_ * kFp32Size);
    weighed = tape_.Make("returned rows in FP32", wide);
    tape_.Keep(weighed);
    const Value scaled = tape_.Make("weighted rows", rows);
    tape_.Run(Small("mlp.combine.to_fp32", rows, wide), returned, {weighed});
    tape_.Run(Small("mlp.combine.weigh", wide, wide), {weighed, probabilities_}, {scaled});
    tape_.Run(Small("mlp.combine.cast", wide, rows), {scaled}, {scaled});
    tape_.Run(Small("mlp.combine.zeros", Bytes(), out), {}, {y.value});
    tape_.Run(operators_.Memory("mlp.combine.scatter_add", count * width_, rows + out, out),
              {scaled, row_map_}, {y.value});
  }
  tape_.OnBackward([=, this] {
    const Value spread = tape_.MakeScratch(options_.ranks == 1 ? rows : sent);
    tape_.RunBackward(Small("mlp.unpermute.dgrad", out, rows),
                      {tape_.GradientOf(y.value), row_map_}, {spread});
    if (weighed >= 0) {
      const Value dp = tape_.MakeGradient(probabilities_);
      const Bytes scores(tokens_ * experts_.count * kFp32Size);
      if (work_.compiled) {
        const Bytes wide(count * width_ * kFp32Size);
        tape_.RunBackward(Small("mlp.combine.weigh.dgrad", wide, rows), {spread, probabilities_},
                          {spread});
        tape_.RunBackward(
            operators_.Memory("mlp.combine.weights.grad", count * width_, 2 * wide, scores),
            {spread, weighed}, {dp});
      } else {
        UnweighRows(spread, weighed, dp);
      }
      tape_.Deliver(probabilities_, dp);
    }
    if (options_.ranks == 1) {
      tape_.Deliver(gradients_of, spread);
      return;
    }
    const Pieces back =
        Exchange(false, "gradients of rows", spread, sent, AllToAllLoads::First::kReceivesMost);
    const Value gradient = tape_.MakeGradient(gradients_of);
    const Bytes own(sent.count() / options_.ranks);
    tape_.RunBackward(Small("mlp.combine.own_rows.dgrad", own, own), back, {gradient});
    tape_.Deliver(gradients_of, gradient);
  });
  return y;
}

// Every rank gets all ranks' tokens, with the probabilities and the map of chosen experts, and
// selects the rows of its own experts.
MixtureOperators::Rows MixtureOperators::DispatchToAll(const Operand& x) {
  const std::int64_t ranks = options_.ranks * options_.tensor;
  const std::int64_t all = tokens_ * ranks;
  const Bytes dense(all * experts_.count * kFp32Size), mask(all * experts_.count * kMaskSize);
  const LayerTape::Collective gather{CollectiveKind::kAllGather, ranks_and_parts(),
                                     operators_.element_};
  const LayerTape::Collective add_up{CollectiveKind::kReduceScatter, ranks_and_parts(),
                                     operators_.element_};
  const Value map = tape_.Make("maps of chosen experts, from all ranks", mask);
  const Value probabilities = tape_.Make("probabilities of all ranks", dense);
  const Value tokens = tape_.Make("tokens of all ranks", RowBytes(all));
  tape_.Communicate(gather, map_, map);
  tape_.Communicate(gather, probabilities_, probabilities);
  tape_.Communicate(gather, x.value, tokens);
  Rows rows{.count = received_rows() * options_.tensor};
  const Bytes own_rows = RowBytes(rows.count), weights = WeightBytes(rows.count);
  counts_on_host_ = tape_.Make("counts on the host", Bytes());
  tape_.Run(Small("mlp.dispatch.counts", mask, Bytes(local_experts() * kCountSize)), {map},
            {counts_on_host_});
  const Bytes row_map(options_.fused_permutation ? all * (2 * local_experts() + 1) * kFp32Size
                                                 : rows.count * kIndexSize);
  row_map_ = tape_.Make("map of permuted rows", row_map);
  tape_.Keep(row_map_);
  tape_.AwaitOnHost(counts_on_host_);
  Repeat(true, options_.fused_permutation ? kMapKernels : kSortKernels,
         Small("mlp.permute.map", mask, row_map), {map}, {row_map_});
  rows.rows = tape_.Make("rows of experts", own_rows);
  Pieces written{rows.rows};
  if (options_.weighs_in_activation()) {
    rows.weights = tape_.Make("weights of experts' rows", weights);
    written.emplace_back(rows.weights);
  }
  tape_.Run(Small("mlp.permute", own_rows + weights, own_rows + weights),
            {tokens, probabilities, row_map_}, written);
  tape_.OnBackward([=, this] {
    const Value spread = tape_.MakeScratch(RowBytes(all));
    const Value dp = tape_.MakeScratch(dense);
    Pieces reads{tape_.GradientOf(rows.rows), row_map_};
    if (rows.weights >= 0) reads.emplace_back(tape_.GradientOf(rows.weights));
    tape_.RunBackward(operators_.Memory("mlp.permute.dgrad", rows.count * width_, own_rows,
                                        RowBytes(all) + dense),
                      reads, {spread, dp});
    const Value own_probabilities = tape_.MakeGradient(probabilities_);
    tape_.CommunicateBackward(add_up, dp, own_probabilities);
    tape_.Deliver(probabilities_, own_probabilities);
    const Value dx = tape_.MakeGradient(x.value);
    tape_.CommunicateBackward(add_up, spread, dx);
    tape_.Deliver(x.value, dx);
  });
  return rows;
}

// Rows are summed into their tokens, in the type of the probabilities, and the ranks' sums are
// scattered.
Operand MixtureOperators::CombineFromAll(const Operand& made, const Operand& x) {
  const std::int64_t all = tokens_ * options_.ranks * options_.tensor;
  const DataType type = options_.router_type;
  const Value spread =
      tape_.Make("tokens of all ranks, returned by experts", BytesOf(all * width_, type));
  tape_.Run(operators_.Memory("mlp.unpermute", made.tokens * width_, operators_.Size(made),
                              BytesOf(all * width_, type)),
            {made.value, row_map_}, {spread});
  const Value sums = tape_.Make("summed tokens", BytesOf(tokens_ * width_, type));
  tape_.Communicate({CollectiveKind::kReduceScatter, ranks_and_parts(), type}, spread, sums);
  const Operand y = operators_.Make("mlp.experts output", width_, tokens_);
  tape_.Run(Small("mlp.combine.cast", BytesOf(tokens_ * width_, type), operators_.Size(x)), {sums},
            {y.value});
  tape_.OnBackward([=, this] {
    const Value whole = tape_.MakeScratch(RowBytes(all));
    tape_.CommunicateBackward({CollectiveKind::kAllGather, ranks_and_parts(), operators_.element_},
                              tape_.GradientOf(y.value), whole);
    const Value gradient = tape_.MakeGradient(made.value);
    tape_.RunBackward(Small("mlp.unpermute.dgrad", operators_.Size(made), operators_.Size(made)),
                      {whole, row_map_}, {gradient});
    tape_.Deliver(made.value, gradient);
  });
  return y;
}

}  // namespace stepcast::model
