#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/foreign/framework.h"
#include "src/foreign/setting.h"

// Recognizes the program for which a file was written.
namespace stepcast::foreign {

// Returns all frameworks whose configurations can be imported.
std::span<const Framework* const> Frameworks();

// A file that is recognized as a framework's configuration. Its options are named as in the
// framework's table.
struct Recognised {
  const Framework* framework;
  Document document;
};
// Returns the document with its framework, or none if the settings belong to no supported
// framework.
std::optional<Recognised> Recognise(const Document& document);

// Returns a name for an unsupported file, such as "a configuration of OLMo", from its keys. Empty
// if the program is unknown.
std::string_view OtherProgramOf(const Document& document);

// Returns whether the settings are from a stepcast scenario or a plan.json.
bool IsScenario(const Document& document);
// Returns whether the settings describe a model, like Hugging Face's config.json.
bool IsModel(const Document& document);
// Returns whether the document is a model file of stepcast, like the files in models/.
bool IsModelFile(const Document& document);
// Returns whether the document is a topology file of stepcast, like the files in topologies/.
bool IsTopology(const Document& document);

}  // namespace stepcast::foreign
