#pragma once

#include <optional>
#include <string>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/diagnostic.h"

// Parses words of the command line about collectives; `option` is the word's option ("--op").
// Appends mistakes: command.unknown-collective, command.bad-quantity.
namespace stepcast::cli {

std::optional<CollectiveKind> ReadCollective(const std::string& option, const std::string& word,
                                             Diagnostics& diagnostics);
std::optional<Bytes> ReadSize(const std::string& option, const std::string& text,
                              Diagnostics& diagnostics);  // above zero

}  // namespace stepcast::cli
