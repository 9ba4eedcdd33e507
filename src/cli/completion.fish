# Completion of stepcast for fish: put it into ~/.config/fish/completions.
function __stepcast_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] complete $words[2..-1] 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c stepcast -f -a '(__stepcast_complete)'
