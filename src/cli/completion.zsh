#compdef stepcast
# Completion of stepcast for zsh: put it as _stepcast into a folder of $fpath.
_stepcast() {
  local line word
  local -a offered keys
  local files=no
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      files=yes
    else
      word=${line%%$'\t'*}
      if [[ $word == *= ]]; then
        keys+=("$word")
      elif [[ $line == *$'\t'* ]]; then
        offered+=("${word//:/\\:}:${line#*$'\t'}")
      else
        offered+=("${word//:/\\:}")
      fi
    fi
  done < <($words[1] complete "${(@)words[2,CURRENT]}" 2>/dev/null)
  (( $#keys )) && compadd -S '' -a keys  # the value follows at once
  (( $#offered )) && _describe -t values stepcast offered
  [[ $files == yes ]] && _files
}
if [[ $funcstack[1] == _stepcast ]]; then
  _stepcast
else
  compdef _stepcast stepcast
fi
