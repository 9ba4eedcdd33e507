#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/model/family.h"
#include "src/scenario/document.h"

// A family of models as a file (docs/formats/model.md): its module names, what its code does, and
// how its config.json is read (family_config.h). Shipped families are in the data root's
// models/families, each named after its family.
namespace stepcast::scenario {

inline constexpr std::string_view kFamilies = "models/families";

// The shipped family of models that are given by their dimensions, or are described by their
// blocks. Null if there is none of this name, or its file has mistakes.
std::shared_ptr<const model::Family> FamilyOfDimensions(const std::string& name,
                                                        Diagnostics& diagnostics);
std::shared_ptr<const model::Family> FamilyOfBlocks(const std::string& name,
                                                    Diagnostics& diagnostics);
// The module names of a family of blocks whose file has been read.
std::shared_ptr<const model::Family> FamilyOfBlocks(const Node& family, Diagnostics& diagnostics);
// The names of modules in blocks of no family.
std::shared_ptr<const model::Family> GeneralFamily(Diagnostics& diagnostics);

// The shipped families whose models are given by their dimensions, and those whose models are
// described by their blocks.
std::vector<std::string> FamiliesOfDimensions();
std::vector<std::string> FamiliesOfBlocks();

// Why a family that no file describes is not modelled: "opt differs from gpt2 by feed-forward
// layers of ReLU, which are not modelled". `name`: the family, or a model or file whose name starts
// with it. Empty: the name is unknown.
std::string UnmodelledFamily(std::string_view name);

std::string FamilyPath(const std::string& name);
std::string NameOfFamily(const Node& family);
// Whether its models are described by their blocks, not given by their dimensions.
bool HasBlocks(const YamlNode& family);

// The file of a family, with all sections of the families that it extends.
std::optional<Node> ReadFamily(const std::string& path, Diagnostics& diagnostics);

}  // namespace stepcast::scenario
