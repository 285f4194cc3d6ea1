"use strict";
// Moves along the penalty path: what is best at a penalty is computed as PenaltyPath.at does it.
(() => {
  const path = JSON.parse(document.getElementById("path-data").textContent);
  const slider = document.getElementById("penalty");
  const output = document.getElementById("path-penalty");
  const now = document.getElementById("now");
  const stairs = document.getElementById("stairs");
  const LEFT = 48, RIGHT = 708;

  const best = (penalty) => {
    let found = 0;
    path.sse.forEach((sse, i) => {
      if (sse + penalty * path.numbers[i] < path.sse[found] + penalty * path.numbers[found]) found = i;
    });
    return path.numbers[found];
  };

  const show = () => {
    const place = Number(slider.value);
    const penalty = 10 ** place;
    const K = best(penalty);
    const words = String(Number(penalty.toPrecision(4)));
    output.textContent = words;
    output.dataset.penalty = String(penalty);
    slider.setAttribute("aria-valuetext", `penalty ${words}: ${K} groups`);
    const x = LEFT + (place - path.low) / (path.high - path.low) * (RIGHT - LEFT);
    now.setAttribute("x1", x);
    now.setAttribute("x2", x);
    document.querySelectorAll("#path [data-k]").forEach((one) => {
      const here = Number(one.dataset.k) === K;
      one.classList.toggle("here", here);
      if (one.classList.contains("stop")) one.hidden = !here;
    });
    document.querySelectorAll("[data-jump]").forEach((one) => {
      one.setAttribute("aria-pressed", String(Number(one.dataset.jump) === K));
    });
  };

  const go = (place) => {
    slider.value = place;
    show();
  };

  const follow = (event) => {
    const box = stairs.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * stairs.viewBox.baseVal.width;
    go(path.low + (x - LEFT) / (RIGHT - LEFT) * (path.high - path.low));
  };

  slider.addEventListener("input", show);
  document.querySelectorAll("[data-jump]").forEach((one) => {
    one.addEventListener("click", () => go(path.places[one.dataset.jump]));
  });
  stairs.addEventListener("pointerdown", (event) => {
    stairs.setPointerCapture(event.pointerId);
    follow(event);
  });
  stairs.addEventListener("pointermove", (event) => {
    if (event.buttons) follow(event);
  });
  show();
})();
