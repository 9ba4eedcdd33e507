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

// The reason why a folder was not written: either the request is invalid (`diagnostics`), or the
// system failed (`reason`, a sentence).
struct FolderFailure {
  Diagnostics diagnostics;
  std::string reason;
};

// The name of the manifest: the file that lists all files written by WriteFolder, including itself,
// one per line.
inline constexpr const char* kManifest = "MANIFEST";

// Writes the files and a manifest to a new folder at `path`, completely or not at all. The files
// are written to a temporary folder, which is renamed when it is complete. An existing folder is an
// error unless it is empty. With `force`, an existing folder is replaced if it contains only files
// that are listed in its manifest.
tl::expected<void, FolderFailure> WriteFolder(const std::string& path,
                                              const std::vector<File>& files, bool force);

// Checks in advance whether WriteFolder can succeed. WriteFolder may still fail for other reasons.
tl::expected<void, FolderFailure> CheckFolder(const std::string& path, bool force);

}  // namespace stepcast::emit
