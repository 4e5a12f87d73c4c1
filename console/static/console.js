"use strict";
// What HTML and htmx do not do by themselves. Every page works without it.

// A file dropped anywhere on the form is chosen, and the form is sent.
for (const form of document.querySelectorAll("[data-drop]")) {
  const over = (event) => { event.preventDefault(); form.classList.add("over"); };
  form.addEventListener("dragover", over);
  form.addEventListener("dragleave", () => form.classList.remove("over"));
  form.addEventListener("drop", (event) => {
    event.preventDefault();
    form.classList.remove("over");
    if (event.dataTransfer.files.length) {
      form.querySelector("input[type=file]").files = event.dataTransfer.files;
      form.requestSubmit();
    }
  });
}
