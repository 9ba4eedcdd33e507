#include "src/model/layer_dump.h"

#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace stepcast::model {
namespace {

void AddValues(std::string& text, std::string_view table, const std::vector<LayerValue>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    text += fmt::format("{} {}: {} {}{}\n", table, i, values[i].name, values[i].bytes.count(),
                        values[i].registered ? " registered" : "");
  }
}

void AddTemporaries(std::string& text, std::string_view pass, const std::vector<Bytes>& tensors) {
  text += fmt::format("{} temporaries:", pass);
  for (const Bytes bytes : tensors) text += fmt::format(" {}", bytes.count());
  text += '\n';
}

// The indices of the values that have this lifetime.
std::vector<int> PlacesOf(Lifetime lifetime, const std::vector<ValueId>& values) {
  std::vector<int> places;
  for (const ValueId value : values) {
    if (value.lifetime == lifetime) places.push_back(value.index);
  }
  return places;
}

void AddNumbers(std::string& text, std::string_view what, const std::vector<int>& numbers) {
  if (!numbers.empty()) text += fmt::format(" {} {}", what, fmt::join(numbers, " "));
}

std::string UseText(const ValueUse& use) {
  static constexpr const char* kLifetimeNames[] = {"saved", "recomputed", "communicated",
                                                   "deferred", "handed back"};
  static constexpr const char* kContents[] = {"sum", "gathered", "sent"};
  return fmt::format("{} {} {} {}/{} parts {} {} {}", use.write ? "writes" : "reads",
                     kLifetimeNames[static_cast<int>(use.value.lifetime)], use.value.index,
                     use.range.piece, use.range.pieces, use.parts, Name(use.type),
                     kContents[static_cast<int>(use.content)]);
}

std::string KernelText(const Kernel& k) {
  return fmt::format(
      "{} kind {} {} [{} {} {} {}] keys {} layout {} {} together {} flops {} {} bytes {} {} given "
      "{} {} sums {} {} access {} flash {} {} issuer {}",
      k.name, static_cast<int>(k.kind), Name(k.data_type), k.batch, k.m, k.n, k.k, k.key_heads,
      static_cast<int>(k.layout), k.adds_to_fp32, k.together, k.flops, k.model_flops,
      k.read.count(), k.written.count(), k.given.picoseconds(), k.on_host, k.summed_tokens,
      k.summed_columns, static_cast<int>(k.access), static_cast<int>(k.flash), k.causal,
      static_cast<int>(k.issuer));
}

void AddOperations(std::string& text, std::string_view pass,
                   const std::vector<Operation>& operations) {
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    text += fmt::format("{} {}: ", pass, i);
    if (operation.group) {
      const GroupOperation& group = *operation.group;
      text += fmt::format("{} over {} distance {} on {} bytes {} {}, {}, {}",
                          Name(group.collective), parallel::NameOf(group.axes), group.distance,
                          group.multiprocessors.value_or(-1), group.bytes.count(), Name(group.type),
                          UseText(group.source), UseText(group.target));
    } else {
      text += KernelText(operation.kernel);
    }
    AddNumbers(text, "parameters", operation.parameters);
    AddNumbers(text, "gradients", operation.gradients);
    for (const Lifetime created : {Lifetime::kSaved, Lifetime::kRecomputed}) {
      AddNumbers(text, "creates", PlacesOf(created, operation.begins));
    }
    AddNumbers(text, "defers", PlacesOf(Lifetime::kDeferred, operation.begins));
    AddNumbers(text, "begins", PlacesOf(Lifetime::kCommunicated, operation.begins));
    AddNumbers(text, "ends", PlacesOf(Lifetime::kCommunicated, operation.ends));
    AddNumbers(text, "waits for", operation.waits);
    if (operation.lane != 0) text += fmt::format(" lane {}", operation.lane);
    if (operation.delayed) text += " delayed";
    if (operation.host_waits_for != Operation::kNoWait) {
      text += fmt::format(" host waits for {}", operation.host_waits_for);
    }
    for (const ValueUse& use : operation.uses) text += ", " + UseText(use);
    text += '\n';
  }
}

}  // namespace

std::string Dump(const LayerWork& work) {
  std::string text;
  const std::vector<LayerValue>& saved = work.Of(Lifetime::kSaved);
  AddValues(text, "saved", saved);
  AddValues(text, "recomputed", work.Of(Lifetime::kRecomputed));
  AddValues(text, "communicated", work.Of(Lifetime::kCommunicated));
  AddValues(text, "deferred", work.Of(Lifetime::kDeferred));
  std::vector<int> for_weights;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    if (saved[i].for_weights) for_weights.push_back(static_cast<int>(i));
  }
  AddNumbers(text, "saved for weights:", for_weights);
  text += fmt::format("\ninput {} output {} handed back {}{}{}\n", work.input, work.output.count(),
                      work.BytesOf(Lifetime::kHandedBack).count(),
                      work.defers_gradient_of_output ? " gradient of output deferred" : "",
                      work.continues_checkpoint ? " continues a checkpoint" : "");
  AddTemporaries(text, "forward", work.forward_temporaries);
  AddTemporaries(text, "backward", work.backward_temporaries);
  AddTemporaries(text, "backward input", work.backward_input.temporaries);
  AddTemporaries(text, "backward weight", work.backward_weight.temporaries);
  AddOperations(text, "forward", work.forward);
  AddOperations(text, "recompute", work.recompute);
  AddOperations(text, "backward", work.backward);
  AddOperations(text, "backward input", work.backward_input.operations);
  AddOperations(text, "backward weight", work.backward_weight.operations);
  return text;
}

}  // namespace stepcast::model
