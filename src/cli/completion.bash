# Completion of stepcast for bash: source this, or put it where bash-completion looks.
_stepcast() {
  local word line files=no
  word=${COMP_LINE:0:COMP_POINT}
  word=${word##*[[:space:]]}
  COMPREPLY=()
  while IFS= read -r line; do
    if [ "$line" = :files ]; then
      files=yes
    else
      line=${line%%$'\t'*}
      # bash replaces what follows the last of COMP_WORDBREAKS alone.
      case $word in *=*) line=${line#"${word%=*}="} ;; esac
      # The value follows at once.
      case $line in *=) compopt -o nospace 2>/dev/null ;; esac
      COMPREPLY+=("$line")
    fi
  done < <("${COMP_WORDS[0]}" complete "${COMP_WORDS[@]:1:COMP_CWORD-1}" "$word" 2>/dev/null)
  if [ $files = yes ]; then
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "${word##*=}")
    compopt -o filenames 2>/dev/null
  fi
}
complete -F _stepcast stepcast
