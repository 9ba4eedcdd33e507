#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>

#include "tl/expected.hpp"

// This file decides which file the name of an output leads to, and through whose symbolic links it
// may lead there. Every command that writes a file asks it.
namespace stepcast {

// A destination is the file that an output's name stands for once all symbolic links are followed.
struct Destination {
  std::string path;                   // without links; a name that may not exist yet
  std::optional<struct stat> status;  // of what is there; none: nothing is
  // The process's own open descriptor that the name stands for: 1 for /dev/stdout. `path` is then
  // the link in /proc that says so.
  std::optional<int> descriptor;
};

// Whether a link, pipe or device belongs to the caller or to the system. Those of another user lead
// where that user wants, and in a folder that all may write to, such as /tmp, any user can put one.
bool BelongsToCallerOrSystem(const struct stat& status);

// Follows all links of a path, those of its folders, too. Below a file, which is no folder, nothing
// is there. The error is a sentence that names the path and the reason: a link of another user, too
// many links, a folder that may not be searched, another user's folder in one that all may write
// to: its owner can put a link in its place at any time.
tl::expected<Destination, std::string> FollowTrustedLinks(const std::string& path);

// "cannot write 'PATH': it belongs to another user".
std::string AnothersOutput(const std::string& path);

}  // namespace stepcast
