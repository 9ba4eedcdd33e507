# What zsh makes of the words of $1 when Tab is pressed. It completes on a terminal alone: a pseudo
# terminal has another zsh.
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'PROMPT=; RPROMPT=; autoload -U compinit; compinit -u -D; print rea''dy'
while zpty -r z line; do [[ $line == *ready* ]] && break; done
zpty -w -n z "$1"$'\t'
sleep 1
while zpty -rt z line; do print -r -- $line; done
zpty -d z
