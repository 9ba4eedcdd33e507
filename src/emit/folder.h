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

// Why a folder was not written: the request is invalid (diagnostics), or the system failed (a
// sentence).
struct FolderFailure {
  Diagnostics diagnostics;
  std::string reason;
};

// The file that lists the files written by WriteFolder, itself included, one per line.
inline constexpr const char* kManifest = "MANIFEST";

// Writes the files and a manifest to a new folder at `path`, all or none: they are written to a
// temporary folder that is renamed when complete. An existing folder is an error unless it is
// empty. With `force` a folder is replaced if it contains only files listed in its manifest.
tl::expected<void, FolderFailure> WriteFolder(const std::string& path,
                                              const std::vector<File>& files, bool force);

// Whether WriteFolder could succeed, as far as can be checked in advance.
tl::expected<void, FolderFailure> CheckFolder(const std::string& path, bool force);

}  // namespace stepcast::emit
