#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/formats/json_tree.h"
#include "src/model/family.h"
#include "src/model/numerical_constants.h"
#include "src/scenario/document.h"

// Reads a config.json by its family's file: the model_types that it reads, the keys of such a file
// with their defaults, and the resulting model file.
//
// Codes: model.family (an expression that cannot be evaluated), model.unknown-type,
// input.missing-key (a required key of the config.json), model.not-modelled (an unsupported value).
namespace stepcast::scenario {

// The file of the shipped family that reads the model, with all sections of the families that it
// extends. The config.json's type ("qwen3_next") decides, or the type of the text model in its
// `text_config`.
Result<Node> FamilyOf(const formats::JsonObject& config);

// Optional parts of a config.json's model, apart from its main layers.
struct ConfigParts {
  bool further_tokens = false;  // the multi-token-prediction module
  // The tower, and its numbers of patches: of all images of a sequence, and of one.
  std::optional<std::int64_t> patches{}, image{};
  bool frozen = false;                           // the tower is not trained
  std::optional<std::int64_t> encoder_tokens{};  // of a sequence of an encoder before the decoder
};

struct FamilyModel {
  Node description;                             // a model file
  std::shared_ptr<const model::Family> family;  // null: the description names it
  std::string name;                             // "_name_or_path", or empty
  std::vector<std::string> warnings{};
  // Only for a model file by its dimensions; other constants are not read.
  model::NumericalConstants constants{};
};

// The architecture that a model file by its dimensions describes.
using ArchitectureReader = std::function<model::Architecture(const Node& description)>;

// The model file that the family makes from a config.json. Nothing after appending mistakes.
std::optional<FamilyModel> DescribeConfig(const formats::JsonObject& config, const Node& family,
                                          const ConfigParts& parts,
                                          const ArchitectureReader& architecture_of,
                                          Diagnostics& diagnostics);

}  // namespace stepcast::scenario
