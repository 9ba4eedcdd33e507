// DeepSpeed's own mixture layer (deepspeed/moe/layer.py, sharded_moe.py and experts.py @ 0c691a52),
// after GShard (arXiv 2006.16668). Every expert has the same number of slots for the tokens of each
// rank. The gate makes a table with the weight of each token in each slot, [n, E C], mostly zeros.
// A product with a mask of the table fills slots with tokens, and a product with the table sums the
// returned rows. Message sizes therefore depend on the capacity, not on the tokens, and no counts
// are exchanged.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "src/model/mixture_operators.h"
#include "src/model/operator_name.h"

namespace stepcast::model {
namespace {

using Pieces = std::vector<LayerTape::Piece>;

// Kernels that the gate launches on [n, E] numbers: softmax, choices, masks of chosen experts,
// their cumulative sums, places in the capacity, weights, and the balancing loss (top1gating,
// top2gating with its Gumbel noise, topkgating). The last constant counts those of their gradients.
constexpr std::int64_t kGateKernels = 30, kTopTwoKernels = 48, kGateGradientKernels = 12;
// Bytes read or written per expert and token by such a kernel: masks have 64 bits, numbers 32.
constexpr std::int64_t kGateSize = 6;
// Bytes of a 64-bit choice before it is cast.
constexpr std::int64_t kOneHotSize = 8;
// Up to this many choices have separate tables, which are summed; more choices share one table.
constexpr std::int64_t kApart = 2;

}  // namespace

// sharded_moe.py, _capacity.
std::int64_t MixtureOperators::capacity() const {
  const double mean = static_cast<double>(rows_of_tokens()) / static_cast<double>(experts_.count);
  return std::max(static_cast<std::int64_t>(std::ceil(mean * options_.load)),
                  options_.min_capacity);
}

Kernel MixtureOperators::TableProduct(std::string_view name, std::int64_t m, std::int64_t n,
                                      std::int64_t k, ProductLayout layout) const {
  Kernel kernel = operators_.Gemm(std::string(name), m, n, k, layout);
  kernel.data_type = operators_.element_;
  kernel.read = operators_.BytesOfElements(m * k + k * n);
  kernel.model_flops = 0;
  return kernel;
}

MixtureOperators::SlotTables MixtureOperators::ChooseSlots(Value logits) {
  const std::int64_t chosen = experts_.per_token, scores = tokens_ * experts_.count;
  const std::int64_t table = tokens_ * slots();
  const Bytes numbers(scores * kFp32Size), whole(table * kFp32Size);
  const std::string name(modules_.router.name);
  const Kernel on_scores =
      Small(name + ".choose", Bytes(scores * kGateSize), Bytes(scores * kGateSize));
  const Value gates = tape_.Make(name + " probabilities", numbers);
  const Value masks = tape_.Make(name + " masks of chosen experts", chosen * numbers);
  tape_.Keep(gates);
  tape_.Keep(masks);
  Repeat(true, chosen == kApart ? kTopTwoKernels : kGateKernels, on_scores, {logits},
         {gates, masks});
  // The place of each choice as a one-hot vector over the capacity: one per token, or one per
  // expert.
  const std::int64_t tables = chosen <= kApart ? chosen : 1;
  const std::int64_t places = chosen <= kApart ? tokens_ * capacity() : table;
  const Value one_hot = tape_.Make(name + " positions", Bytes(places * kOneHotSize));
  const Value placed = tape_.Make(name + " positions in FP32", Bytes(tables * places * kFp32Size));
  tape_.Keep(placed);
  SlotTables made;
  made.weights = tape_.Make(name + " combine weights", whole);
  for (std::int64_t i = 0; i < tables; ++i) {
    tape_.Run(Small(name + ".one_hot", numbers, Bytes(places * kOneHotSize)), {masks}, {one_hot});
    tape_.Run(Small(name + ".one_hot.cast", Bytes(places * kOneHotSize), Bytes(places * kFp32Size)),
              {one_hot}, {placed});
  }
  for (std::int64_t i = 0; i < tables; ++i) {
    tape_.Run(Small(name + ".weigh_slots", numbers + Bytes(places * kFp32Size), whole),
              {gates, placed}, {made.weights});
  }
  for (std::int64_t i = 1; i < tables; ++i) {
    tape_.Run(Small(name + ".add_choices", whole + whole, whole), {placed}, {made.weights});
  }
  const Value mask = tape_.Make(name + " dispatch mask", Bytes(table * kMaskSize));
  tape_.Run(Small(name + ".mask", whole, Bytes(table * kMaskSize)), {made.weights}, {mask});
  const Bytes narrow = operators_.BytesOfElements(table);
  made.mask = tape_.Make(name + " dispatch mask in 16 bits", narrow);
  tape_.Run(Small(name + ".mask.cast", Bytes(table * kMaskSize), narrow), {mask}, {made.mask});
  tape_.OnBackward([=, this] {
    const Value of_choices = tape_.MakeScratch(numbers);
    for (std::int64_t i = 0; i < tables; ++i) {
      tape_.RunBackward(
          Small(name + ".weigh_slots.dgrad", whole + Bytes(places * kFp32Size), numbers),
          {tape_.GradientOf(made.weights), placed}, {of_choices});
    }
    const Value gradient = tape_.MakeGradient(logits);
    Repeat(false, kGateGradientKernels,
           Small(name + ".choose.dgrad", Bytes(scores * kGateSize), numbers),
           {of_choices, gates, masks}, {gradient});
    tape_.Deliver(logits, gradient);
  });
  return made;
}

LayerTape::Value MixtureOperators::FillSlots(const Operand& x, Value mask) {
  const Value filled = tape_.Make("dispatched rows", RowBytes(slots()));
  tape_.Keep(mask);
  tape_.Run(
      TableProduct("mlp.dispatch.einsum", slots(), width_, tokens_, ProductLayout::kWeightGradient),
      {mask, x.value}, {filled});
  tape_.OnBackward([=, this] {
    const Value dx = tape_.MakeGradient(x.value);
    tape_.RunBackward(TableProduct("mlp.dispatch.einsum.dgrad", tokens_, width_, slots(),
                                   ProductLayout::kInputGradient),
                      {tape_.GradientOf(filled), mask}, {dx});
    tape_.Deliver(x.value, dx);
  });
  return filled;
}

// An all-to-all with the same number of slots to and from each rank.
LayerTape::Value MixtureOperators::ExchangeSlots(std::string_view name, Value rows) {
  if (options_.ranks == 1) return rows;
  const Bytes all = RowBytes(slots()), own(all.count() / options_.ranks);
  const Value arrived = tape_.Make(Joined(name, ", received"), all);
  const Kernel copy = Small("mlp.exchange.own_rows", own, own);
  tape_.Run(copy, Exchange(true, name, rows, all, AllToAllLoads::First::kAsOthers), {arrived});
  tape_.OnBackward([=, this, name = std::string(name)] {
    const Pieces back = Exchange(false, "gradients of " + name, tape_.GradientOf(arrived), all,
                                 AllToAllLoads::First::kAsOthers);
    const Value gradient = tape_.MakeGradient(rows);
    Kernel gradient_copy = copy;
    gradient_copy.name += ".dgrad";
    tape_.RunBackward(gradient_copy, back, {gradient});
    tape_.Deliver(rows, gradient);
  });
  return arrived;
}

// Experts run one after the other, on their slots from all ranks. With several experts, one
// expert's slots are not contiguous, so both of its first products copy them, and the results are
// joined.
LayerTape::Value MixtureOperators::RunLoopOverSlots(Value rows) {
  const std::int64_t experts = local_experts(), each = slots() / experts;
  const Bytes one = RowBytes(each), all = RowBytes(slots());
  const bool several = experts > 1;
  LoopValues loop;
  loop.rows = several ? tape_.Make("copies of experts' rows", all + all) : rows;
  MakeProducts(slots(), loop);
  for (const Value value : {loop.rows, loop.gate, loop.up, loop.activated, loop.product}) {
    if (value >= 0) tape_.Keep(value);
  }
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    for (int copy = 0; several && copy < 2; ++copy) {
      tape_.Run(Small("mlp.experts.chunk", one, one), {rows}, {loop.rows});
    }
    RunLoopedExpert(loop, each);
  }
  Value made = loop.made;
  if (several) {
    made = tape_.Make("mlp.experts output, of all experts", all);
    tape_.Run(Small("mlp.experts.cat", all, all), {loop.made}, {made});
  }
  tape_.OnBackward([=, this] {
    LoopGradients gradients = MakeLoopGradients(each);
    gradients.made = tape_.GradientOf(made);
    const Value gradient = tape_.MakeGradient(rows);
    if (!several) gradients.rows = gradient;
    for (std::int64_t expert = experts; expert-- > 0;) {
      RunLoopedExpertBackward(loop, gradients, each, expert == 0);
      if (!several) continue;
      tape_.RunBackward(Small("mlp.experts.chunk.dgrad", one, one), {gradients.rows}, {gradient});
    }
    tape_.Deliver(rows, gradient);
  });
  return made;
}

Operand MixtureOperators::EmptySlots(Value rows, Value weights) {
  const std::int64_t table = tokens_ * slots();
  const Bytes whole(table * kFp32Size), narrow = operators_.BytesOfElements(table);
  const Value cast = tape_.Make("combine weights in 16 bits", narrow);
  tape_.Keep(cast);
  tape_.Keep(rows);
  tape_.Run(Small("mlp.combine.cast", whole, narrow), {weights}, {cast});
  const Operand y = operators_.Make("mlp.experts output", width_, tokens_);
  tape_.Run(
      TableProduct("mlp.combine.einsum", tokens_, width_, slots(), ProductLayout::kInputGradient),
      {cast, rows}, {y.value});
  tape_.OnBackward([=, this] {
    const Value gradient = tape_.GradientOf(y.value);
    const Value of_table = tape_.MakeScratch(narrow);
    tape_.RunBackward(TableProduct("mlp.combine.einsum.dgrad_weights", tokens_, slots(), width_,
                                   ProductLayout::kForward),
                      {gradient, rows}, {of_table});
    const Value back = tape_.MakeGradient(rows);
    tape_.RunBackward(TableProduct("mlp.combine.einsum.dgrad_rows", slots(), width_, tokens_,
                                   ProductLayout::kWeightGradient),
                      {gradient, cast}, {back});
    const Value wide = tape_.MakeGradient(weights);
    tape_.RunBackward(Small("mlp.combine.cast.dgrad", narrow, whole), {of_table}, {wide});
    tape_.Deliver(weights, wide);
    tape_.Deliver(rows, back);
  });
  return y;
}

Operand MixtureOperators::RunSlots(const Operand& token, const Operand& x) {
  const SlotTables tables = ChooseSlots(Logits(token));
  const Value filled = FillSlots(x, tables.mask);
  const Value made = RunLoopOverSlots(ExchangeSlots("rows", filled));
  return EmptySlots(ExchangeSlots("returned rows", made), tables.weights);
}

}  // namespace stepcast::model
