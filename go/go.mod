module github.com/loligo-storage/loligo/go

go 1.21
