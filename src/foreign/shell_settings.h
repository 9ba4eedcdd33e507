#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/foreign/setting.h"

namespace stepcast::foreign {

struct ShellDocuments {
  // The options of the training command, and around it: "launcher.nnodes" of torchrun and others,
  // "env.CUDA_DEVICE_MAX_CONNECTIONS", "sbatch.nodes".
  Document command;
  // YAML between heredocs, each as text, with the line on which it begins.
  std::vector<std::pair<std::string, int>> embedded{};
  // Variables that may add options to the command, and of which nothing is known.
  std::vector<std::pair<std::string, Location>> open{};
  // What the script compares variables with.
  std::map<std::string, std::vector<std::string>> compared{};
  std::map<std::string, std::string> unfollowed{};  // ShellOutcome
  std::vector<std::string> scripts{};               // that it starts
};

// The settings in a shell script (shell_script.h), or in a list of arguments as a command line has
// them. The training command is the one with the most options. Names are without their leading
// hyphens. `given`: variables as the user states them.
ShellDocuments ParseShellSettings(std::string_view text, const std::string& file,
                                  const std::map<std::string, std::string>& given);

// The document with its options' names in one spelling: `separator` between words.
Document Spelled(Document document, char separator);

}  // namespace stepcast::foreign
