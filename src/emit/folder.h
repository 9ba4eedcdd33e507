#pragma once

#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "tl/expected.hpp"

namespace stepcast::emit {

struct File {
  std::string name;  // relative to the folder; may have folders of its own
  std::string text;
  bool executable = false;
};

// Why a folder was not written: the user's request cannot be met as it stands (diagnostics), or the
// system failed (a sentence).
struct FolderFailure {
  Diagnostics diagnostics;
  std::string reason;
};

// Names the files of a folder that WriteFolder wrote, itself among them, one a line.
inline constexpr const char* kManifest = "MANIFEST";

// Writes the files and a manifest of them into a new folder at `path`, all or none: they are
// written beside it and renamed when they are complete. A folder that exists is in the way, unless
// it is empty; with `force` one is replaced that holds nothing but what its manifest lists.
tl::expected<void, FolderFailure> WriteFolder(const std::string& path,
                                              const std::vector<File>& files, bool force);

// Whether it could, as far as can be seen before there is anything to write.
tl::expected<void, FolderFailure> CheckFolder(const std::string& path, bool force);

}  // namespace stepcast::emit
