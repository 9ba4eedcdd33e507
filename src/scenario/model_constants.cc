
#include <algorithm>
#include <optional>
#include <variant>

#include "src/scenario/data_root.h"
#include "src/scenario/document.h"
#include "src/scenario/memory_document.h"
#include "src/scenario/model_file.h"
#include "src/scenario/resolved.h"
#include "src/scenario/resolved_scenario.h"
#include "src/scenario/source_names.h"

namespace stepcast::scenario {

Result<model::NumericalConstants> ModelConstantsOf(const Scenario& scenario,
                                                   const std::string& source) {
  const auto& keys = std::get<Resolved::Mapping>(scenario.resolved.value);
  const auto model = std::find_if(keys.begin(), keys.end(),
                                  [](const auto& entry) { return entry.first == "model"; });
  if (model == keys.end()) return {};
  if (const auto* path = std::get_if<std::string>(&model->second.value)) {
    const bool in_memory = MemoryDocument::Find(source) != nullptr;
    const std::string folder = in_memory ? "" : FolderOf(FindInput(source, "").value_or(source));
    return LoadModelConstants(FindSource(*path, folder, SourceKind::kModel).value_or(*path));
  }
  Diagnostics diagnostics;
  const std::optional<Node> node = ParseDocument(ToJson(model->second), scenario.name, diagnostics);
  if (!node) return tl::make_unexpected(std::move(diagnostics));
  return ReadModelConstants(*node);
}

}  // namespace stepcast::scenario
