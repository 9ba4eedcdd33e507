#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/foreign/framework.h"
#include "src/foreign/setting.h"

// Recognizes the program that a file belongs to.
namespace stepcast::foreign {

// Returns all frameworks whose configurations can be imported.
std::span<const Framework* const> Frameworks();

// A file as a framework's configuration. Options have the names of the framework's table.
struct Recognised {
  const Framework* framework;
  Document document;
};
// Returns none if the settings belong to no supported framework.
std::optional<Recognised> Recognise(const Document& document);

// Returns the kind of an unsupported file, recognized by its keys: "a configuration of OLMo". Empty
// if the kind is unknown.
std::string_view OtherProgramOf(const Document& document);

// Returns whether the settings are a stepcast scenario or a plan.json.
bool IsScenario(const Document& document);
// Returns whether the settings are a model: a config.json of Hugging Face.
bool IsModel(const Document& document);
// A model file of stepcast, as in models/.
bool IsModelFile(const Document& document);
// A topology file of stepcast, as in topologies/.
bool IsTopology(const Document& document);

}  // namespace stepcast::foreign
