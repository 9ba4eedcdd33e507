#include "src/report/layer_list_yaml.h"

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/printable.h"
#include "src/base/quantity.h"
#include "src/base/yaml_text.h"

namespace stepcast::report {
namespace {

std::string Collective(const formats::TracedCollective& collective) {
  std::string line = fmt::format("#   {}", Printable(collective.collective));
  if (collective.elements > 0) line += fmt::format(" of {} elements", collective.elements);
  if (!collective.data_type.empty()) line += " " + Printable(collective.data_type);
  if (collective.ranks > 0) line += fmt::format(" over {} ranks", collective.ranks);
  return line + fmt::format(": from {}, {}{}\n", FormatTime(collective.start),
                            FormatTime(collective.duration),
                            collective.gradients ? ", gradients" : "");
}

}  // namespace

std::string LayerListYaml(const std::string& name, const formats::TracedStep& step) {
  std::string text = fmt::format(
      "# Written by 'stepcast model import': ProfilerStep#{}, {}: forward {}, backward {},\n"
      "# communication exposed after it {}, the rest is the update's and the host's. Kernels ran "
      "for\n"
      "# {}.\n",
      step.number, FormatTime(step.duration), FormatTime(step.forward), FormatTime(step.backward),
      FormatTime(step.exposed_communication), FormatTime(step.kernels));
  for (const std::string& note : step.notes) text += "# Note: " + Printable(note) + ".\n";
  if (!step.collectives.empty()) {
    text += "# Collectives, in the order of their launches:\n";
    for (const formats::TracedCollective& collective : step.collectives) {
      text += Collective(collective);
    }
  }
  text += fmt::format("kind: layers\nname: {}\nlayers:\n", YamlQuoted(name));
  for (const model::ListedLayer& layer : step.layers.layers) {
    text += fmt::format(
        "  - {{name: {}, parameters: [{}], forward: {}, backward: {}, activation: 0 B}}\n",
        YamlQuoted(layer.name), fmt::join(layer.parameters, ", "), ExactTime(layer.forward),
        ExactTime(layer.backward));
  }
  text += fmt::format("optimizer_step: {}\n", ExactTime(step.layers.optimizer_step));
  return text;
}

}  // namespace stepcast::report
