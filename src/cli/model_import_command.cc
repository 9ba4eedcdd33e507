#include "src/cli/model_import_command.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/cli/output_text.h"
#include "src/formats/kineto.h"
#include "src/formats/trace_text.h"
#include "src/report/layer_list_yaml.h"
#include "src/scenario/model_file.h"
#include "src/scenario/source_names.h"

namespace stepcast::cli {
namespace {

// "rank0" of "traces/rank0.pt.trace.json.gz".
std::string NameOfTrace(std::string_view path) {
  path = path.substr(path.rfind('/') + 1);
  for (const std::string_view ending : {".gz", ".json", ".trace", ".pt"}) {
    if (path.size() > ending.size() && path.ends_with(ending)) path.remove_suffix(ending.size());
  }
  return std::string(path);
}

// The elements of a model's parameters in registration order.
Result<std::vector<std::int64_t>> SizesOf(const std::string& model) {
  std::vector<std::int64_t> sizes;
  if (model.empty()) return sizes;
  const auto path = scenario::FindSource(model, "", scenario::SourceKind::kModel);
  const auto loaded = scenario::LoadModel(path.value_or(model));
  if (!loaded) return tl::make_unexpected(loaded.error());
  for (const auto& tensor : loaded->model.tensors) sizes.push_back(tensor.elements);
  return sizes;
}

}  // namespace

Outcome ModelImport(const ModelImportOptions& options) {
  Diagnostics faults;
  auto trace = formats::TraceText::Open(options.kineto, faults);
  if (!trace) return WrongInput(faults);
  const auto sizes = SizesOf(options.model);
  if (!sizes) return WrongInput(sizes.error());
  const auto step = formats::ParseKineto([&trace] { return trace->Next(); }, options.kineto,
                                         options.step, *sizes);
  if (!faults.empty()) return WrongInput(faults);  // the text ended before its end
  if (!step) return WrongInput(step.error());
  const std::string name = options.name.empty() ? NameOfTrace(options.kineto) : options.name;
  Outcome outcome = PutText(options.output, report::LayerListYaml(name, *step));
  if (outcome.status == kDone) {
    for (const std::string& note : step->notes) outcome.messages += "note: " + note + "\n";
  }
  return outcome;
}

}  // namespace stepcast::cli
