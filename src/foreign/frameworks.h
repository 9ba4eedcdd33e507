#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/foreign/framework.h"
#include "src/foreign/setting.h"

// Recognizes the program to which a file belongs.
namespace stepcast::foreign {

// Returns all frameworks whose configurations can be imported.
std::span<const Framework* const> Frameworks();

// A file as a framework's configuration. Its options have the names of the framework's table.
struct Recognised {
  const Framework* framework;
  Document document;
};
// Recognizes the framework of a document. None if the settings belong to no supported framework.
std::optional<Recognised> Recognise(const Document& document);

// Returns the kind of an unsupported file, such as "a configuration of OLMo", recognized by its
// keys. Empty if the kind is unknown.
std::string_view OtherProgramOf(const Document& document);

// Returns whether the settings come from a stepcast scenario or from a plan.json.
bool IsScenario(const Document& document);
// Returns whether the settings describe a model, as a config.json of Hugging Face does.
bool IsModel(const Document& document);
// Returns whether the document is a model file of stepcast, as in models/.
bool IsModelFile(const Document& document);
// Returns whether the document is a topology file of stepcast, as in topologies/.
bool IsTopology(const Document& document);

}  // namespace stepcast::foreign
