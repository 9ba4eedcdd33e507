# What zsh makes of the words of $1 when Tab is pressed, as soon as $2 is there, or ten seconds later. It
# completes on a terminal alone: a pseudo terminal has another zsh.
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'PROMPT=; RPROMPT=; autoload -U compinit; compinit -u -D; print rea''dy'
while zpty -r z line; do [[ $line == *ready* ]] && break; done
zpty -w -n z "$1"$'\t'
seen=
for tenth in {1..100}; do
  while zpty -rt z line; do seen+=$line; done
  [[ $seen == *$2* ]] && break
  sleep 0.1
done
print -r -- $seen
zpty -d z
