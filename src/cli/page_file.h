#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/cli/outcome.h"
#include "src/report/output_file.h"

namespace stepcast::cli {

// The page that --report names, if it does. It appears when it is complete.
class PageFile {
 public:
  // Before the work, so that a folder that does not exist is noticed at once. An outcome is a
  // failure.
  std::optional<Outcome> Create(const std::string& path);
  // Makes the text only where a page is asked for.
  std::optional<Outcome> Write(const std::function<std::string()>& text);

 private:
  std::optional<report::OutputFile> file_;
};

// What a page says was asked: the scenario and what was set in it.
std::vector<std::pair<std::string, std::string>> AskedOf(const std::string& scenario,
                                                         const std::vector<std::string>& set);

}  // namespace stepcast::cli
