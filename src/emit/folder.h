#pragma once

#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "tl/expected.hpp"

namespace stepcast::emit {

struct File {
  std::string name;  // relative to the folder; may include subfolders
  std::string text;
  bool executable = false;
};

// Why a folder was not written: an invalid request (`diagnostics`), or a failure of the operating
// system (`reason`, a sentence).
struct FolderFailure {
  Diagnostics diagnostics;
  std::string reason;
};

// The file that lists all files written by WriteFolder, including itself, one per line.
inline constexpr const char* kManifest = "MANIFEST";

// Writes the files and a manifest to a new folder at `path`, completely or not at all. Writes to a
// temporary folder, and renames the folder. Fails if the folder exists and is not empty. With
// `force`, replaces a folder that contains only files in its manifest.
tl::expected<void, FolderFailure> WriteFolder(const std::string& path,
                                              const std::vector<File>& files, bool force);

// Checks whether WriteFolder can succeed. (It may still fail, for example if the disk is full.)
tl::expected<void, FolderFailure> CheckFolder(const std::string& path, bool force);

}  // namespace stepcast::emit
