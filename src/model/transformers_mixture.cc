// Hugging Face's mixture layer, whose ranks have all experts (transformers, MixtralExperts and
// Qwen3MoeSparseMoeBlock before 5; integrations/moe.py @ 8b584a67b since). DeepSpeed's hooks see
// the experts as one module: since 5 they are one; before, they are a leaf module
// (deepspeed.utils.set_z3_leaf_modules).
#include <string>
#include <utility>
#include <vector>

#include "src/model/mixture_operators.h"
#include "src/model/operator_name.h"

namespace stepcast::model {
namespace {

using Pieces = std::vector<LayerTape::Piece>;

// Kernels that PyTorch launches for a sort of keys, and for adding rows at places that may coincide
// (index_put_ with accumulate, which sorts the places first).
constexpr std::int64_t kArgsortKernels = 4, kPutKernels = 6;
// Kernels that find non-zero places: their number and destinations, which the host reads to
// allocate memory, and then the places.
constexpr std::int64_t kWhereKernels = 2;
// Kernels for the rows of each expert, from sorted keys: counts and starts.
constexpr std::int64_t kOffsetKernels = 3;

}  // namespace

std::vector<int> MixtureOperators::ParametersOfExperts() const {
  std::vector<int> all = modules_.gate_up.parameters.all();
  for (const int position : modules_.down.parameters.all()) all.push_back(position);
  return all;
}

Operand MixtureOperators::RunTransformers(const Operand& x) {
  return options_.products == ExpertProducts::kLooped ? RunLoop(x) : RunSorted(x);
}

// The product of all experts, and its gradients; `x` is kept. `completes`: its backward completes
// the parameters' gradients.
Operand MixtureOperators::ProductOfExperts(const Operand& x, const LinearModule& module,
                                           std::int64_t out) {
  const std::int64_t each = RowsOfExpert(x.tokens), in = x.width;
  const std::string name(module.name);
  const Operand y = operators_.Make(name + " output", out, x.tokens);
  const bool trained = module.parameters.weight >= 0;
  const std::vector<int> parameters = ParametersOfExperts();
  if (trained) tape_.Keep(x.value);
  RunGrouped(true, ExpertProduct(name, each, out, in, ProductLayout::kForward), {x.value},
             {y.value}, {}, parameters);
  tape_.OnBackward([=, this] {
    const Value gradient = tape_.GradientOf(y.value);
    const Value dx = tape_.MakeGradient(x.value);
    RunGrouped(false, ExpertProduct(name + ".dgrad", each, in, out, ProductLayout::kInputGradient),
               {gradient}, {dx}, {}, parameters);
    if (trained) {
      RunGrouped(false,
                 ExpertProduct(name + ".wgrad", out, in, each, ProductLayout::kWeightGradient),
                 {gradient, x.value}, {}, module.parameters.all(), parameters);
    }
    tape_.Deliver(x.value, dx);
  });
  return y;
}

// Rows sorted by expert, grouped products, and the sum of each token's rows, without host waits.
Operand MixtureOperators::RunSorted(const Operand& x) {
  const std::int64_t count = sent_rows();
  const Bytes rows = RowBytes(count), keys(count * kIndexSize);
  // Experts' keys in order, the source of each row, and its way back.
  const Value order = tape_.Make("order of rows", 3 * keys);
  tape_.Keep(order);
  Repeat(true, 2 * kArgsortKernels + kOffsetKernels, Small("mlp.experts.sort", keys, keys), {map_},
         {order});
  const Operand gathered = operators_.Make("rows of experts", width_, count);
  tape_.Run(Small("mlp.experts.gather", rows + keys, rows), {x.value, order}, {gathered.value});
  tape_.OnBackward([=, this] {
    const Value dx = tape_.MakeGradient(x.value);
    tape_.RunBackward(Small("mlp.experts.gather.zeros", Bytes(), operators_.Size(x)), {}, {dx});
    Repeat(false, kPutKernels,
           Small("mlp.experts.gather.dgrad", Bytes(rows.count() / kPutKernels),
                 Bytes(rows.count() / kPutKernels)),
           {tape_.GradientOf(gathered.value), order}, {dx});
    tape_.Deliver(x.value, dx);
  });
  const Operand both = ProductOfExperts(gathered, modules_.gate_up, modules_.gate_up.out);
  const Operand activated =
      gated() ? ActivateHalves(both) : operators_.SquaredRelu(both, "mlp.experts.act_fn");
  const Operand made = ProductOfExperts(activated, modules_.down, width_);
  return AddUpSorted(made, order, x);
}

// The activation of one half times the other, operator by operator; every result is kept.
Operand MixtureOperators::ActivateHalves(const Operand& both) {
  const Operand activated = operators_.Make("mlp.experts.act_fn output", inner(), both.tokens);
  const Operand product = operators_.Make("mlp.experts.product output", inner(), both.tokens);
  const Bytes half = operators_.Size(product);
  tape_.Keep(both.value);
  tape_.Keep(activated.value);
  tape_.Run(Small("mlp.experts.act_fn", half, half), {both.value}, {activated.value});
  tape_.Run(Small("mlp.experts.product", half + half, half), {activated.value, both.value},
            {product.value});
  tape_.OnBackward([=, this] {
    const Value gradient = tape_.GradientOf(product.value);
    const Value left = tape_.MakeScratch(half), right = tape_.MakeScratch(half);
    tape_.RunBackward(Small("mlp.experts.product.dgrad_left", half + half, half),
                      {gradient, both.value}, {left});
    tape_.RunBackward(Small("mlp.experts.product.dgrad_right", half + half, half),
                      {gradient, activated.value}, {right});
    const Value gate = tape_.MakeScratch(half);
    tape_.RunBackward(Small("mlp.experts.act_fn.dgrad", half + half, half), {left, both.value},
                      {gate});
    const Value joined = tape_.MakeGradient(both.value);
    tape_.RunBackward(Small("mlp.experts.halves.dgrad", half + half, half + half), {gate, right},
                      {joined});
    tape_.Deliver(both.value, joined);
  });
  return product;
}

Operand MixtureOperators::AddUpSorted(const Operand& made, Value order, const Operand& x) {
  const Bytes rows = operators_.Size(made), out = operators_.Size(x);
  const Bytes weights = operators_.BytesOfElements(made.tokens);
  const Operand y = operators_.Make("mlp.experts output", width_, tokens_);
  const Value weighed = tape_.Make("weighted rows", rows), back = tape_.Make("returned rows", rows);
  tape_.Keep(made.value);
  tape_.Run(Small("mlp.experts.weigh", rows + weights, rows), {made.value, probabilities_},
            {weighed});
  tape_.Run(Small("mlp.experts.order", rows, rows), {weighed, order}, {back});
  tape_.Run(operators_.Memory("mlp.experts.sum", made.tokens * width_, rows, out), {back},
            {y.value});
  tape_.OnBackward([=, this] {
    const Value spread = tape_.MakeScratch(rows);
    tape_.RunBackward(Small("mlp.experts.order.zeros", Bytes(), rows), {}, {spread});
    Repeat(false, kPutKernels,
           Small("mlp.experts.order.dgrad", Bytes(out.count() / kPutKernels),
                 Bytes(rows.count() / kPutKernels)),
           {tape_.GradientOf(y.value), order}, {spread});
    const Value dy = tape_.MakeGradient(made.value);
    tape_.RunBackward(Small("mlp.experts.weigh.dgrad", rows + weights, rows),
                      {spread, probabilities_}, {dy});
    const Value products = tape_.MakeScratch(rows);
    tape_.RunBackward(Small("mlp.experts.weigh.product", rows + rows, rows), {spread, made.value},
                      {products});
    const Value dp = tape_.MakeGradient(probabilities_);
    tape_.RunBackward(operators_.Memory("mlp.experts.weights.grad", made.tokens * width_, rows,
                                        Bytes(tokens_ * experts_.count * kFp32Size)),
                      {products}, {dp});
    tape_.Deliver(probabilities_, dp);
    tape_.Deliver(made.value, dy);
  });
  return y;
}

void MixtureOperators::MakeProducts(std::int64_t rows, LoopValues& loop) {
  const Bytes half = operators_.BytesOfElements(rows * inner());
  loop.gate = tape_.Make("mlp.experts.gate_proj output", half);
  if (gated()) loop.up = tape_.Make("mlp.experts.up_proj output", half);
  loop.activated = tape_.Make("mlp.experts.act_fn output", half);
  if (gated()) loop.product = tape_.Make("mlp.experts.product output", half);
  loop.made = tape_.Make("mlp.experts.down_proj output", RowBytes(rows));
}

void MixtureOperators::RunLoopedExpert(const LoopValues& loop, std::int64_t rows) {
  const Bytes half = operators_.BytesOfElements(rows * inner());
  const std::vector<int> parameters = ParametersOfExperts();
  const auto multiply = [&](const char* name, std::int64_t out, std::int64_t in, Value from,
                            Value to) {
    tape_.Run(ExpertProduct(name, rows, out, in, ProductLayout::kForward), {from}, {to},
              parameters);
  };
  multiply(gated() ? "mlp.experts.gate_proj" : "mlp.experts.up_proj", inner(), width_, loop.rows,
           loop.gate);
  tape_.Run(Small("mlp.experts.act_fn", half, half), {loop.gate}, {loop.activated});
  if (!gated())
    return multiply("mlp.experts.down_proj", width_, inner(), loop.activated, loop.made);
  multiply("mlp.experts.up_proj", inner(), width_, loop.rows, loop.up);
  tape_.Run(Small("mlp.experts.product", half + half, half), {loop.activated, loop.up},
            {loop.product});
  multiply("mlp.experts.down_proj", width_, inner(), loop.product, loop.made);
}

MixtureOperators::LoopGradients MixtureOperators::MakeLoopGradients(std::int64_t rows) {
  const Bytes half = operators_.BytesOfElements(rows * inner());
  LoopGradients gradients;
  for (Value* value : {&gradients.left, &gradients.right, &gradients.gate, &gradients.inside}) {
    *value = tape_.MakeScratch(half);
  }
  for (Value* value : {&gradients.made, &gradients.rows, &gradients.other}) {
    *value = tape_.MakeScratch(RowBytes(rows));
  }
  return gradients;
}

void MixtureOperators::RunLoopedExpertBackward(const LoopValues& loop,
                                               const LoopGradients& gradients, std::int64_t rows,
                                               bool last) {
  const Bytes half = operators_.BytesOfElements(rows * inner()), whole = RowBytes(rows);
  const std::vector<int> parameters = ParametersOfExperts();
  const bool trained = modules_.gate_up.parameters.weight >= 0;
  const auto run = [&](const char* name, Bytes read, Bytes written, const Pieces& from, Value to) {
    tape_.RunBackward(Small(name, read, written), from, {to});
  };
  const auto multiply = [&](const std::string& name, std::int64_t out, std::int64_t in,
                            Value gradient, Value kept, Value to,
                            const std::vector<int>& completed) {
    tape_.RunBackward(ExpertProduct(name + ".dgrad", rows, in, out, ProductLayout::kInputGradient),
                      {gradient}, {to}, {}, parameters);
    if (!trained) return;
    tape_.RunBackward(ExpertProduct(name + ".wgrad", out, in, rows, ProductLayout::kWeightGradient),
                      {gradient, kept}, {}, last ? completed : std::vector<int>(), parameters);
  };
  multiply("mlp.experts.down_proj", width_, inner(), gradients.made,
           gated() ? loop.product : loop.activated, gradients.inside,
           modules_.down.parameters.all());
  if (!gated()) {
    run("mlp.experts.act_fn.dgrad", half + half, half, {gradients.inside, loop.gate},
        gradients.gate);
    return multiply("mlp.experts.up_proj", inner(), width_, gradients.gate, loop.rows,
                    gradients.rows, modules_.gate_up.parameters.all());
  }
  run("mlp.experts.product.dgrad_left", half + half, half, {gradients.inside, loop.up},
      gradients.left);
  run("mlp.experts.product.dgrad_right", half + half, half, {gradients.inside, loop.activated},
      gradients.right);
  multiply("mlp.experts.up_proj", inner(), width_, gradients.right, loop.rows, gradients.rows, {});
  run("mlp.experts.act_fn.dgrad", half + half, half, {gradients.left, loop.gate}, gradients.gate);
  multiply("mlp.experts.gate_proj", inner(), width_, gradients.gate, loop.rows, gradients.other,
           modules_.gate_up.parameters.all());
  run("mlp.experts.rows.sum", whole + whole, whole, {gradients.other}, gradients.rows);
}

// One expert after the other: the tokens that chose it, which the host waits for, their rows, three
// products with the operations between them, and the sum.
Operand MixtureOperators::RunLoop(const Operand& x) {
  const std::int64_t experts = experts_.count, count = sent_rows();
  const std::int64_t each = (count + experts - 1) / experts;
  const Bytes rows = RowBytes(each);
  const Bytes mask(tokens_ * experts_.per_token * kMaskSize);
  const Bytes places(2 * each * kIndexSize);
  LoopValues loop;
  loop.places = tape_.Make("indices of chosen tokens", Bytes(2 * count * kIndexSize));
  loop.rows = tape_.Make("rows of experts", RowBytes(count));
  MakeProducts(count, loop);
  for (const Value value :
       {loop.places, loop.rows, loop.gate, loop.up, loop.activated, loop.product, loop.made}) {
    if (value >= 0) tape_.Keep(value);
  }
  const Operand y = operators_.Make("mlp.experts output", width_, tokens_);
  tape_.Run(Small("mlp.experts.zeros", Bytes(), operators_.Size(x)), {}, {y.value});
  const Value weighed = tape_.Make("weighted rows of an expert", rows);
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    const Value counted = tape_.Make("counts on the host", Bytes());
    Repeat(true, kWhereKernels, Small("mlp.experts.where.count", mask, Bytes(kIndexSize)), {map_},
           {counted});
    tape_.AwaitOnHost(counted);
    tape_.Run(Small("mlp.experts.where", mask, places), {map_}, {loop.places});
    tape_.Run(Small("mlp.experts.gather", rows, rows), {x.value, loop.places}, {loop.rows});
    RunLoopedExpert(loop, each);
    tape_.Run(Small("mlp.experts.weights", places, places), {probabilities_, loop.places},
              {weighed});
    tape_.Run(Small("mlp.experts.weigh", rows, rows), {loop.made}, {weighed});
    tape_.Run(operators_.Memory("mlp.experts.index_add", each * width_, rows + rows, rows),
              {weighed, loop.places}, {y.value});
  }
  tape_.OnBackward([=, this] { RunLoopBackward(x, y, loop); });
  return y;
}

// For each expert, the gradient of gathered rows is a tensor of all tokens, which is added to the
// others'.
void MixtureOperators::RunLoopBackward(const Operand& x, const Operand& y, const LoopValues& loop) {
  const std::int64_t experts = experts_.count;
  const std::int64_t each = (sent_rows() + experts - 1) / experts;
  const Bytes rows = RowBytes(each);
  const Bytes all = operators_.Size(x), weights(tokens_ * experts_.per_token * kFp32Size);
  const Value dx = tape_.MakeGradient(x.value), dp = tape_.MakeGradient(probabilities_);
  const LoopGradients gradients = MakeLoopGradients(each);
  const Value spread = tape_.MakeScratch(rows), of_weights = tape_.MakeScratch(weights);
  const Value of_all = tape_.MakeScratch(all);
  const auto run = [&](const char* name, Bytes read, Bytes written, const Pieces& from, Value to) {
    tape_.RunBackward(Small(name, read, written), from, {to});
  };
  for (std::int64_t expert = experts; expert-- > 0;) {
    run("mlp.experts.index_add.dgrad", rows, rows, {tape_.GradientOf(y.value), loop.places},
        spread);
    run("mlp.experts.weigh.dgrad", rows, rows, {spread, probabilities_}, gradients.made);
    run("mlp.experts.weigh.product", rows + rows, rows, {spread, loop.made}, gradients.other);
    run("mlp.experts.weights.sum", rows, Bytes(each * kFp32Size), {gradients.other}, of_weights);
    run("mlp.experts.weights.zeros", Bytes(), weights, {}, of_weights);
    Repeat(false, kPutKernels, Small("mlp.experts.weights.grad", weights, weights), {of_weights},
           {dp});
    RunLoopedExpertBackward(loop, gradients, each, expert == 0);
    run("mlp.experts.gather.zeros", Bytes(), all, {}, of_all);
    Repeat(false, kPutKernels,
           Small("mlp.experts.gather.dgrad", Bytes(rows.count() / kPutKernels),
                 Bytes(rows.count() / kPutKernels)),
           {gradients.rows, loop.places}, {of_all});
    run("mlp.experts.gradients.sum", all + all, all, {of_all}, dx);
  }
  tape_.Deliver(probabilities_, dp);
  tape_.Deliver(x.value, dx);
}

}  // namespace stepcast::model
