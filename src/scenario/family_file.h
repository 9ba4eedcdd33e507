#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/formats/json_tree.h"
#include "src/model/module_names.h"
#include "src/scenario/document.h"

// A family of models as a file (docs/formats/model.md): which model_type it reads, the keys of such
// a config.json with their defaults, and the model file that follows from them. Shipped ones lie in
// the data root's models/families, each called after its family.
//
// Codes: model.family (an expression of the file that cannot be evaluated), input.missing-key (a
// key that the config.json must have), model.not-modelled (a value that the family does not take).
namespace stepcast::scenario {

inline constexpr std::string_view kFamilies = "models/families";

// What a family calls its modules. Null where there is no shipped family of this name, or with
// mistakes in its file.
std::shared_ptr<const model::DescribedFamily> NamesOfFamily(const std::string& name,
                                                            Diagnostics& diagnostics);
// The family's modules, of a file that has been read.
std::shared_ptr<const model::DescribedFamily> NamesOfFamily(const Node& family,
                                                            Diagnostics& diagnostics);

// The shipped family that reads configurations of this type, "qwen3_next", as a document; none.
std::optional<Node> FamilyOfType(std::string_view model_type, Diagnostics& diagnostics);
// All types that shipped families read.
std::vector<std::string> DescribedTypes();

// What of a config.json is part of the model beside its main layers.
struct ConfigParts {
  bool further_tokens = false;  // the module that predicts a further token
  // The tower, for images of so many patches: of all images of a sequence, and of one.
  std::optional<std::int64_t> patches{}, image{};
};

struct FamilyModel {
  Node description;  // a model file
  std::shared_ptr<const model::DescribedFamily> family;
  std::string name;  // "_name_or_path", if it is there; else empty
  std::vector<std::string> warnings;
};

// The model file that the family makes of a config.json. Nothing: mistakes were appended.
std::optional<FamilyModel> DescribeConfig(const formats::JsonObject& config, const Node& family,
                                          const ConfigParts& parts, Diagnostics& diagnostics);

}  // namespace stepcast::scenario
