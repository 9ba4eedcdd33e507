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

// Reads a config.json with the file of its family. This file states the model_types to which it
// applies, the keys of the config.json with their defaults, and the resulting model file. Errors:
// model.family (an expression that cannot be evaluated), model.unknown-type, input.missing-key (a
// required key of the config.json), model.not-modelled (an unsupported value).
namespace stepcast::scenario {

// Returns the file of the shipped family that reads the model. It includes all sections of the
// families that this family extends. The type of the config.json ("qwen3_next") or, if there is a
// `text_config`, the type of the text model determines the family.
Result<Node> FamilyOf(const formats::JsonObject& config);

// Optional parts of a config.json's model, in addition to its main layers.
struct ConfigParts {
  bool further_tokens = false;  // the multi-token-prediction module
  // `patches` is the number of image patches of a sequence; `image` is the number of patches of one
  // image. The tower encodes the patches. None: the model has no tower.
  std::optional<std::int64_t> patches{}, image{};
  bool frozen = false;                           // the tower is not trained
  std::optional<std::int64_t> encoder_tokens{};  // of a sequence of an encoder before the decoder
};

struct FamilyModel {
  Node description;                             // a model file
  std::shared_ptr<const model::Family> family;  // null: the description names it
  std::string name;                             // "_name_or_path", or empty
  std::vector<std::string> warnings{};
  // Set only if the model file states dimensions. The constants of other models are not read.
  model::NumericalConstants constants{};
};

// A function that returns the architecture that a model file describes by dimensions.
using ArchitectureReader = std::function<model::Architecture(const Node& description)>;

// Returns the model file that the family makes from a config.json. After mistakes, which are
// appended, returns none.
std::optional<FamilyModel> DescribeConfig(const formats::JsonObject& config, const Node& family,
                                          const ConfigParts& parts,
                                          const ArchitectureReader& architecture_of,
                                          Diagnostics& diagnostics);

}  // namespace stepcast::scenario
