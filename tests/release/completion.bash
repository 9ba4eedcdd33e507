# Prints bash's completions for the words of $1, loaded by bash-completion for `stepcast`.
. /usr/share/bash-completion/bash_completion
COMP_LINE=$1
COMP_POINT=${#COMP_LINE}
COMP_TYPE=9
# bash splits words at the characters of COMP_WORDBREAKS, = among them.
read -ra COMP_WORDS <<<"${COMP_LINE//=/ = }"
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_completion_loader stepcast 2>/dev/null || __load_completion stepcast 2>/dev/null || _comp_load stepcast
_stepcast 2>/dev/null
printf '%s\n' "${COMPREPLY[@]}"
