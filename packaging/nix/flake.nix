{
  description = "Loligo: a Ceph-compatible storage stack in which no request waits behind another request's lock";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
    in
    {
      packages = each (pkgs: {
        default = pkgs.rustPlatform.buildRustPackage {
          pname = "loligo";
          version = "0.1.0";
          src = ../..;
          cargoLock.lockFile = ../../Cargo.lock;
          cargoBuildFlags = [ "--package" "loligo" ];
          # The tests start servers, which needs more than a build may do.
          doCheck = false;
          nativeBuildInputs = [ pkgs.installShellFiles ];
          postInstall = ''
            mkdir man
            $out/bin/loligo manual man
            installManPage man/*
            installShellCompletion --cmd loligo \
              --bash <($out/bin/loligo completions bash) \
              --zsh <($out/bin/loligo completions zsh) \
              --fish <($out/bin/loligo completions fish)
          '';
          meta = {
            description = "Ceph-compatible client and server";
            license = with pkgs.lib.licenses; [ mit asl20 ];
            mainProgram = "loligo";
          };
        };
      });
    };
}
