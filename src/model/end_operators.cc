#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "src/model/layer_operators.h"
#include "src/model/operator_name.h"

// Operators at the ends of a model without words, and between an encoder and its decoder.
namespace stepcast::model {
namespace {

using Value = LayerTape::Value;

std::vector<int> Positions(int weight) {
  return weight >= 0 ? std::vector<int>{weight} : std::vector<int>();
}

}  // namespace

Operand LayerOperators::Context(std::string_view name, std::int64_t width, std::int64_t tokens) {
  Operand context{.width = width, .tokens = tokens};
  context.value = tape_->Outside(std::string(name), Size(context));
  tape_->OnBackward([=, this] {
    // The sum exists already, except in the last block.
    const Value gradient = tape_->GradientOf(context.value);
    tape_->RunBackward(
        Memory(Joined(name, ".grad.add"), Elements(context), 2 * Size(context), Size(context)),
        {gradient}, {});
  });
  return context;
}

Operand LayerOperators::Convolution(Operand x, std::string_view module, std::int64_t out,
                                    std::int64_t taps, std::int64_t tokens,
                                    ModulePositions parameters) {
  const Operand windows{.value = x.value, .width = taps * x.width, .tokens = tokens};
  return Linear(windows, module, out, parameters);
}

Operand LayerOperators::PutRowsBefore(Operand x, std::string_view module, std::int64_t rows,
                                      int weight) {
  const std::int64_t added = options_.micro_batch_size * rows;
  const Operand y = Make(Joined(module, " output"), x.width, x.tokens + added, x.fp32);
  const Bytes table(rows * x.width * ElementSize(x));
  tape_->Run(Memory(std::string(module), 0, Size(x) + table, Size(y)), {x.value}, {y.value},
             Positions(weight));
  tape_->OnBackward([=, this] {
    const Value dy = tape_->GradientOf(y.value), dx = tape_->MakeGradient(x.value);
    tape_->RunBackward(Memory(Joined(module, ".dgrad"), 0, Size(x), Size(x)), {dy}, {dx});
    if (weight >= 0) {
      tape_->RunBackward(Memory(Joined(module, ".wgrad"), added * x.width,
                                Bytes(added * x.width * ElementSize(x)), table),
                         {dy}, {}, {weight}, {weight});
    }
    tape_->Deliver(x.value, dx);
  });
  return y;
}

std::array<Operand, 2> LayerOperators::DivideRows(const Operand& x, std::string_view name,
                                                  std::int64_t first, bool copies) {
  const Operand before = Make(Joined(name, ".first"), x.width, first, x.fp32);
  const Operand after = Make(Joined(name, ".others"), x.width, x.tokens - first, x.fp32);
  const Bytes moved = copies ? Size(x) : Bytes();
  tape_->RunBothWays(Memory(std::string(name), 0, Bytes(), Bytes()),
                     {Memory(Joined(name, ".dgrad"), 0, moved, moved)}, {x.value},
                     {before.value, after.value});
  return {before, after};
}

Operand LayerOperators::MeanOfTokens(Operand x, std::string_view module, std::int64_t sequences) {
  const Operand y = Make(Joined(module, " output"), x.width, sequences, x.fp32);
  tape_->RunBothWays(Memory(std::string(module), Elements(x), Size(x), Size(y)),
                     {Memory(Joined(module, ".dgrad"), Elements(x), Size(y), Size(x))}, {x.value},
                     {y.value});
  return y;
}

// aten::mse_loss writes all squares, and its mean reads them.
void LayerOperators::SquaredError(Operand x, std::string_view module) {
  const Operand target = Values(Joined(module, ".target"), x.width, x.tokens);
  const Value squares = tape_->Make(Joined(module, " output"), Size(x));
  tape_->Keep(x.value);
  tape_->Keep(target.value);
  tape_->Run(Memory(std::string(module), 2 * Elements(x), Size(x) + Size(target), Size(x)),
             {x.value, target.value}, {squares});
  tape_->Run(Memory(Joined(module, ".mean"), Elements(x), Size(x), Bytes(kFp32Size)), {squares},
             {});
  tape_->RunOnBackward(
      {Memory(Joined(module, ".dgrad"), 2 * Elements(x), Size(x) + Size(target), Size(x))}, {},
      {x.value});
}

void LayerOperators::Distances(std::string_view module, std::int64_t heads, std::int64_t buckets,
                               int weight) {
  const std::int64_t most = kMostScoreBytes / element_size_;
  const std::int64_t pairs = positions_ * positions_, of_heads = Capped(heads, pairs, most);
  const std::int64_t scores = Capped(options_.micro_batch_size, of_heads, most);
  const Bytes of_one = BytesOfElements(of_heads), of_all = BytesOfElements(scores);
  const Bytes indices(pairs * kIndexSize), table = BytesOfElements(buckets * heads);
  const Value looked_up = tape_->Make(Joined(module, " output"), of_one);
  const Value expanded = tape_->Make(Joined(module, ".mask output"), of_all);
  tape_->Run(Memory(std::string(module), 0, of_one + indices, of_one), {}, {looked_up},
             Positions(weight));
  tape_->Run(Memory(Joined(module, ".mask"), scores, of_one, of_all), {looked_up}, {expanded});
  tape_->KeepForOthers(expanded);
  tape_->OnBackward([=, this] {
    // The blocks have left the sum of their gradients.
    const Value gradient = tape_->MakeGradient(expanded);
    const Value of_batch = tape_->RunToScratch(
        Memory(Joined(module, ".mask.dgrad"), scores, of_all, of_one), {gradient});
    if (weight < 0) return;
    tape_->RunBackward(Memory(Joined(module, ".wgrad"), of_heads, of_one + indices, table),
                       {of_batch}, {}, {weight}, {weight});
  });
}

}  // namespace stepcast::model
